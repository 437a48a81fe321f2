// The members of a plain struct as a tuple of references, in the order of their declaration, so
// that a struct says its fields once: where it declares them. What travels, and what is compared
// field by field, is exactly what the struct has.
//
// C++20 has no reflection. field_count finds how many members a struct has by trying of how many
// values it can be made; fields() binds so many names to it. Where the two disagree (a base class,
// a C array, a bit field, more members than kMostFields) it does not compile, so no member is ever
// left out.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace laneway::wire {

// The largest struct that fields() has a row for.
inline constexpr size_t kMostFields = 26;

// A struct without constructors, private members and virtual functions.
template <class T>
concept PlainStruct = std::is_class_v<T> && std::is_aggregate_v<T>;

namespace fields_detail {

struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): becomes whatever the member is
};

template <class T, size_t... I>
constexpr bool made_of(std::index_sequence<I...>) {
  return requires { T{(void(I), AnyValue{})...}; };
}

}  // namespace fields_detail

// How many members T has: the most values that it can be made of.
template <PlainStruct T, size_t N = kMostFields + 1>
constexpr size_t field_count() {
  if constexpr (N == 0 || fields_detail::made_of<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}

// The members of `value`, which is borrowed.
template <class T>
requires PlainStruct<std::remove_const_t<T>>
constexpr auto fields(T& value) {
  constexpr size_t kCount = field_count<std::remove_const_t<T>>();
  static_assert(kCount <= kMostFields, "fields() needs one more row");
  if constexpr (kCount == 0) return std::tie();
#define LW_FIELDS(N, ...)         \
  if constexpr (kCount == (N)) {  \
    auto& [__VA_ARGS__] = value;  \
    return std::tie(__VA_ARGS__); \
  }
  LW_FIELDS(1, a)
  LW_FIELDS(2, a, b)
  LW_FIELDS(3, a, b, c)
  LW_FIELDS(4, a, b, c, d)
  LW_FIELDS(5, a, b, c, d, e)
  LW_FIELDS(6, a, b, c, d, e, f)
  LW_FIELDS(7, a, b, c, d, e, f, g)
  LW_FIELDS(8, a, b, c, d, e, f, g, h)
  LW_FIELDS(9, a, b, c, d, e, f, g, h, i)
  LW_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  LW_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  LW_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  LW_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  LW_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  LW_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  LW_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  LW_FIELDS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  LW_FIELDS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  LW_FIELDS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  LW_FIELDS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  LW_FIELDS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  LW_FIELDS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  LW_FIELDS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
  LW_FIELDS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
  LW_FIELDS(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
  LW_FIELDS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z)
#undef LW_FIELDS
}

}  // namespace laneway::wire

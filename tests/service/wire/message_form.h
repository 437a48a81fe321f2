// form_of<T>: how a value of T lies in a message, as a text: "{u4,text,[{size,enum laneway::A}]}".
// Two types with the same text have the same bytes on the wire for the same content. Ids, sizes,
// times and enums have texts of their own, so that two of them that change places are another form;
// two members of one type that do are seen by nobody but the reader.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "service/wire/fields.h"

namespace laneway::testing {

template <class T>
struct Form;

template <class T>
std::string form_of() {
  return Form<T>::text();
}

template <class... T>
std::string forms_of(const char* open, const char* close) {
  std::string text;
  ((text += text.empty() ? form_of<T>() : "," + form_of<T>()), ...);
  return open + text + close;
}

// By the compiler: "laneway::lanes::JobState".
template <class T>
std::string name_of() {
  const std::string_view all = __PRETTY_FUNCTION__;
  const size_t from = all.find("T = ") + 4;
  return std::string(all.substr(from, all.find_first_of(";]", from) - from));
}

template <class T>
struct Form {
  static std::string text() {
    const std::string size = std::to_string(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      return "bool";
    } else if constexpr (std::is_enum_v<T>) {
      return "enum " + name_of<T>();  // more enumerators are no other form
    } else if constexpr (std::is_floating_point_v<T>) {
      return "f" + size;
    } else if constexpr (std::is_arithmetic_v<T>) {
      return (std::is_signed_v<T> ? "i" : "u") + size;
    } else {
      return []<class... M>(std::type_identity<std::tuple<M&...>>) {
        return forms_of<M...>("{", "}");
      }(std::type_identity<decltype(wire::fields(std::declval<T&>()))>());
    }
  }
};
template <>
struct Form<std::string> {
  static std::string text() { return "text"; }
};
template <size_t N>
struct Form<std::array<uint8_t, N>> {
  static std::string text() { return "bytes" + std::to_string(N); }
};
template <class T, size_t N>
struct Form<std::array<T, N>> {
  static std::string text() { return std::to_string(N) + " of " + form_of<T>(); }
};
template <class T>
struct Form<std::optional<T>> {
  static std::string text() { return form_of<T>() + "?"; }
};
template <class T>
struct Form<std::vector<T>> {
  static std::string text() { return "[" + form_of<T>() + "]"; }
};
template <class... T>
struct Form<std::variant<T...>> {
  static std::string text() { return forms_of<T...>("<", ">"); }
};
template <class Tag>
struct Form<Id<Tag>> {
  static std::string text() { return "id of " + name_of<Tag>(); }
};
template <>
struct Form<Bytes> {
  static std::string text() { return "size"; }
};
template <>
struct Form<Duration> {
  static std::string text() { return "duration"; }
};
template <>
struct Form<TimePoint> {
  static std::string text() { return "time"; }
};

}  // namespace laneway::testing

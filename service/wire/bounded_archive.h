// BoundedInput and BoundedOutput: cereal's archives over a span and a vector, for bytes that nobody
// vouches for. cereal's own archives reserve what a size tag says, take any byte for a bool or an
// enum, and throw; this one checks every count against its type's limit and the bytes that are left
// before anything grows, keeps the first failure, and gives zeros from then on. Included by the
// codec alone. Not thread-safe.
//
// Form: integers and doubles little-endian in their size; bool and enum one byte; string and byte
// list u32 length, then the bytes (text is UTF-8); list u32 count, then the elements; variant one
// byte for the alternative, then it; an optional a bool, then what it has; an array its elements;
// an id eight bytes; a struct its members, in the order of their declaration
// (service/wire/fields.h).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/cereal.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
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
#include "base/utf8.h"
#include "service/wire/element_limits.h"
#include "service/wire/fields.h"

namespace laneway::wire {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

class BoundedInput : public cereal::InputArchive<BoundedInput, cereal::AllowEmptyClassElision> {
 public:
  // Borrows the bytes.
  explicit BoundedInput(std::span<const std::byte> bytes)
      : cereal::InputArchive<BoundedInput, cereal::AllowEmptyClassElision>(this), bytes_(bytes) {}

  bool failed() const { return !failure_.empty(); }
  // "at byte 12: …", the first that was wrong.
  const std::string& failure() const { return failure_; }
  size_t left() const { return bytes_.size() - at_; }

  void fail(const std::string& what) {
    if (!failed()) failure_ = "at byte " + std::to_string(at_) + ": " + what;
  }
  // The next `size` bytes; nothing when fewer are left.
  std::span<const std::byte> take(size_t size) {
    if (failed()) return {};
    if (left() < size) {
      fail(std::to_string(size) + " bytes are needed and " + std::to_string(left()) + " are left");
      return {};
    }
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  // A count of things of which each takes at least a byte.
  uint32_t take_count(uint32_t limit) {
    uint32_t count = 0;
    (*this)(count);
    if (failed()) return 0;
    if (count > limit || count > left()) {
      fail("a list of " + std::to_string(count) + " elements; the limit is " +
           std::to_string(limit) + " and " + std::to_string(left()) + " bytes are left");
      return 0;
    }
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string failure_;
};

class BoundedOutput : public cereal::OutputArchive<BoundedOutput, cereal::AllowEmptyClassElision> {
 public:
  // Appends to `bytes`, which is borrowed, and whole when the archive is gone.
  explicit BoundedOutput(std::vector<std::byte>& bytes)
      : cereal::OutputArchive<BoundedOutput, cereal::AllowEmptyClassElision>(this),
        bytes_(bytes),
        begin_(bytes.size()),
        used_(bytes.size()) {}
  ~BoundedOutput() { bytes_.resize(used_); }
  BoundedOutput(const BoundedOutput&) = delete;
  BoundedOutput& operator=(const BoundedOutput&) = delete;

  // To grow by each of many small fields costs more than the fields. What was there before may be
  // much, and grows nothing. Of an empty list there may be no address.
  void put(const void* data, size_t size) {
    if (size == 0) return;
    if (bytes_.size() - used_ < size) {
      bytes_.resize(used_ + size + std::max<size_t>(used_ - begin_, 64));
    }
    std::memcpy(bytes_.data() + used_, data, size);
    used_ += size;
  }

 private:
  std::vector<std::byte>& bytes_;
  const size_t begin_;
  size_t used_;
};

template <class T>
concept PlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

// ---- numbers, bools, enums

template <PlainNumber T>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, T& number) {
  number = T{};
  const std::span<const std::byte> bytes = archive.take(sizeof(T));
  if (!bytes.empty()) std::memcpy(&number, bytes.data(), sizeof(T));
}
template <PlainNumber T>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const T& number) {
  archive.put(&number, sizeof(T));
}

inline void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, bool& value) {
  uint8_t byte = 0;
  archive(byte);
  if (byte > 1) archive.fail("a bool of " + std::to_string(byte));
  value = byte == 1;
}
inline void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const bool& value) {
  archive(static_cast<uint8_t>(value ? 1 : 0));
}

template <class Enum>
requires std::is_enum_v<Enum>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, Enum& value) {
  static_assert(kEnumeratorCount<Enum> > 0, "service/wire/element_limits.h has no row for it");
  uint8_t byte = 0;
  archive(byte);
  if (byte >= kEnumeratorCount<Enum>) {
    archive.fail("an enumerator of " + std::to_string(byte) + "; there are " +
                 std::to_string(kEnumeratorCount<Enum>));
    byte = 0;
  }
  value = static_cast<Enum>(byte);
}
template <class Enum>
requires std::is_enum_v<Enum>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const Enum& value) {
  archive(static_cast<uint8_t>(value));
}

// ---- texts and lists

inline void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::string& text) {
  const std::span<const std::byte> bytes = archive.take(archive.take_count(UINT32_MAX));
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_utf8(bytes)) archive.fail("a text that is not UTF-8");
}
// Texts of operators and programs come from elsewhere: what is no UTF-8 in them is replaced, since
// the other side would refuse it.
inline void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::string& text) {
  archive(static_cast<uint32_t>(text.size()));
  if (is_utf8(std::as_bytes(std::span(text)))) {
    archive.put(text.data(), text.size());
  } else {
    archive.put(to_utf8(text).data(), text.size());
  }
}

template <size_t N>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::array<uint8_t, N>& bytes) {
  bytes = {};
  const std::span<const std::byte> taken = archive.take(N);
  if (!taken.empty()) std::memcpy(bytes.data(), taken.data(), N);
}
template <size_t N>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::array<uint8_t, N>& bytes) {
  archive.put(bytes.data(), N);
}

template <class T, size_t N>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::array<T, N>& elements) {
  for (T& element : elements) archive(element);
}
template <class T, size_t N>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::array<T, N>& elements) {
  for (const T& element : elements) archive(element);
}

template <class T>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::optional<T>& value) {
  bool has = false;
  archive(has);
  value.reset();
  if (has) archive(value.emplace());
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::optional<T>& value) {
  archive(value.has_value());
  if (value) archive(*value);
}

template <class T>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::vector<T>& list) {
  list.clear();
  if constexpr (std::is_same_v<T, uint8_t>) {
    const std::span<const std::byte> bytes = archive.take(archive.take_count(UINT32_MAX));
    const auto* const from = reinterpret_cast<const uint8_t*>(bytes.data());
    list.assign(from, from + bytes.size());
  } else {
    // Nothing is reserved: elements are made as their bytes are found.
    const uint32_t count = archive.take_count(kMaxElements<T>);
    for (uint32_t i = 0; i < count && !archive.failed(); ++i) archive(list.emplace_back());
  }
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::vector<T>& list) {
  archive(static_cast<uint32_t>(list.size()));
  if constexpr (std::is_same_v<T, uint8_t>) {
    archive.put(list.data(), list.size());
  } else {
    for (const T& element : list) archive(element);
  }
}

template <class... T>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, std::variant<T...>& value) {
  uint8_t index = 0;
  archive(index);
  if (index >= sizeof...(T)) {
    archive.fail("alternative " + std::to_string(index) + " of " + std::to_string(sizeof...(T)));
    return;
  }
  [&]<size_t... I>(std::index_sequence<I...>) {
    (void)((I == index && (archive(value.template emplace<I>()), true)) || ...);
  }
  (std::index_sequence_for<T...>());
}
template <class... T>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const std::variant<T...>& value) {
  archive(static_cast<uint8_t>(value.index()));
  std::visit([&](const auto& one) { archive(one); }, value);
}

// ---- value types of base/

template <class Tag>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, Id<Tag>& id) {
  uint64_t value = 0;
  archive(value);
  id = Id<Tag>(value);
}
template <class Tag>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const Id<Tag>& id) {
  archive(id.value());
}
inline void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, Bytes& bytes) {
  int64_t count = 0;
  archive(count);
  bytes = Bytes(count);
}
inline void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const Bytes& bytes) {
  archive(bytes.count());
}
inline void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, Duration& duration) {
  int64_t ns = 0;
  archive(ns);
  duration = Duration(ns);
}
inline void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const Duration& duration) {
  archive(duration.ns());
}
inline void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, TimePoint& time) {
  int64_t ns = 0;
  archive(ns);
  time = TimePoint(ns);
}
inline void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const TimePoint& time) {
  archive(time.ns());
}

// ---- structs

template <PlainStruct T>
void CEREAL_LOAD_FUNCTION_NAME(BoundedInput& archive, T& value) {
  std::apply([&](auto&... members) { (archive(members), ...); }, fields(value));
}
template <PlainStruct T>
void CEREAL_SAVE_FUNCTION_NAME(BoundedOutput& archive, const T& value) {
  std::apply([&](const auto&... members) { (archive(members), ...); }, fields(value));
}

}  // namespace laneway::wire

CEREAL_SETUP_ARCHIVE_TRAITS(laneway::wire::BoundedInput, laneway::wire::BoundedOutput)

// cereal has its own way with enums, which checks nothing.
template <class Enum>
requires std::is_enum_v<Enum>
struct cereal::specialize<laneway::wire::BoundedInput, Enum,
                          cereal::specialization::non_member_load_save> : std::true_type {
};
template <class Enum>
requires std::is_enum_v<Enum>
struct cereal::specialize<laneway::wire::BoundedOutput, Enum,
                          cereal::specialization::non_member_load_save> : std::true_type {
};

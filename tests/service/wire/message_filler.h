// MessageFiller: fills a message's fields with random content within the rules (enums in range,
// texts of UTF-8).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "service/wire/element_limits.h"
#include "service/wire/fields.h"

namespace laneway::testing {

class MessageFiller {
 public:
  explicit MessageFiller(Random& random) : random_(random) {}

  template <class... T>
  void operator()(T&... fields) {
    (fill(fields), ...);
  }

 private:
  void fill(bool& value) { value = random_.chance(0.5); }
  template <class T>
  requires std::is_integral_v<T>
  void fill(T& value) {
    // Small, large and negative ones.
    value = static_cast<T>(random_.next() >> random_.below(64));
  }
  void fill(double& value) { value = (random_.unit() - 0.5) * 1e6; }
  template <class T>
  requires std::is_enum_v<T>
  void fill(T& value) { value = static_cast<T>(random_.below(wire::kEnumeratorCount<T>)); }
  void fill(std::string& text) {
    static const std::array<const char*, 5> kPieces{"a", "Z9 ", "\xc3\xa9", "\xe2\x82\xac",
                                                    "\xf0\x9f\x9a\x80"};
    text.clear();
    for (uint64_t left = random_.below(6); left > 0; --left) {
      text += kPieces.at(random_.below(kPieces.size()));
    }
  }
  template <size_t N>
  void fill(std::array<uint8_t, N>& bytes) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.next());
  }
  template <class T, size_t N>
  void fill(std::array<T, N>& elements) {
    for (T& element : elements) fill(element);
  }
  template <class T>
  void fill(std::optional<T>& value) {
    value.reset();
    if (random_.chance(0.5)) fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.clear();
    for (uint64_t left = random_.below(4); left > 0; --left) fill(list.emplace_back());
  }
  template <class... T>
  void fill(std::variant<T...>& value) {
    const uint64_t index = random_.below(sizeof...(T));
    [&]<size_t... I>(std::index_sequence<I...>) {
      (void)((I == index && (fill(value.template emplace<I>()), true)) || ...);
    }
    (std::index_sequence_for<T...>());
  }
  template <class Tag>
  void fill(Id<Tag>& id) {
    id = Id<Tag>(random_.next());
  }
  void fill(Bytes& bytes) { bytes = Bytes(static_cast<int64_t>(random_.next())); }
  void fill(TimePoint& time) { time = TimePoint(static_cast<int64_t>(random_.next())); }
  void fill(Duration& duration) { duration = Duration(static_cast<int64_t>(random_.next())); }
  template <wire::PlainStruct T>
  void fill(T& value) {
    std::apply([&](auto&... members) { (fill(members), ...); }, wire::fields(value));
  }

  Random& random_;
};

}  // namespace laneway::testing

// Codec: messages as bytes and back. A message is a header (magic "LNWY", protocol, type, the
// type's version, request, token) and the fields in order, little-endian. Decoding believes
// nothing: every size is checked against the bytes that are left before anything is reserved,
// booleans and enums must be in range, nothing may be left over, and a version that this program
// does not speak is refused with both numbers. cereal and its exceptions stay inside.
// Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "service/wire/message.h"

namespace laneway::wire {

// Raised when the header itself changes. Types have versions of their own.
inline constexpr uint16_t kProtocol = 1;
inline constexpr size_t kHeaderBytes = 36;

struct MessageHeader {
  uint16_t type = 0;
  uint16_t version = 0;
  Envelope envelope;
};

// The header alone. invalid_argument: too short, another magic; unsupported: another protocol, with
// both numbers.
Result<MessageHeader> decode_header(std::span<const std::byte> bytes);

// Of any message of the families. A message that is larger than its type's maximum is a bug of the
// sender: whoever takes texts from elsewhere cuts them first.
template <Message M>
std::vector<std::byte> encode(const M& message, const Envelope& envelope = {});

// Of one type. invalid_argument names the message and what is wrong with it; unsupported: another
// version of the type, with both numbers.
template <Message M>
Result<M> decode_message(std::span<const std::byte> bytes);

// Of a variant of messages (AnyRequest, to_worker::Any, …).
template <Message... M>
std::vector<std::byte> encode(const std::variant<M...>& message, const Envelope& envelope = {}) {
  return std::visit([&](const auto& one) { return encode(one, envelope); }, message);
}

namespace codec_detail {
Error unknown_type(uint16_t type);

template <class Family>
struct FamilyDecoder;
template <Message... M>
struct FamilyDecoder<std::variant<M...>> {
  using Family = std::variant<M...>;
  static Result<Family> decode(std::span<const std::byte> bytes) {
    const Result<MessageHeader> header = decode_header(bytes);
    if (!header) return header.error();
    return decode_as<M...>(header.value().type, bytes);
  }

 private:
  template <Message One, Message... Others>
  static Result<Family> decode_as(uint16_t type, std::span<const std::byte> bytes) {
    if (type == One::kType.number) {
      Result<One> one = decode_message<One>(bytes);
      if (!one) return one.error();
      return Family(std::in_place_type<One>, std::move(one).value());
    }
    if constexpr (sizeof...(Others) > 0) {
      return decode_as<Others...>(type, bytes);
    } else {
      return unknown_type(type);
    }
  }
};
}  // namespace codec_detail

// The message of the family; invalid_argument also when the type is none of it.
template <class Family>
Result<Family> decode(std::span<const std::byte> bytes) {
  return codec_detail::FamilyDecoder<Family>::decode(bytes);
}

}  // namespace laneway::wire

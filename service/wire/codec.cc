#include "service/wire/codec.h"

#include <cstring>
#include <string>

namespace laneway::wire {
namespace {

constexpr uint32_t kMagic = 0x59574e4c;  // "LNWY", little-endian

struct WireHeader {
  uint32_t magic = kMagic;
  uint16_t protocol = kProtocol;
  uint16_t type = 0;
  uint16_t version = 0;
  uint16_t zero = 0;
  uint32_t request_low = 0;  // two halves, so that nothing is padded
  uint32_t request_high = 0;
  Token token{};
};
static_assert(sizeof(WireHeader) == kHeaderBytes);

}  // namespace

Result<MessageHeader> decode_header(std::span<const std::byte> bytes) {
  WireHeader header;
  if (bytes.size() < sizeof(header)) {
    return Error{ErrorCode::invalid_argument, "a message of " + std::to_string(bytes.size()) +
                                                  " bytes is shorter than its header, which has " +
                                                  std::to_string(kHeaderBytes)};
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) {
    return Error{ErrorCode::invalid_argument,
                 "these bytes are no message of Laneway: they do not begin with \"LNWY\""};
  }
  if (header.protocol != kProtocol) {
    return Error{ErrorCode::unsupported,
                 "the message speaks protocol " + std::to_string(header.protocol) +
                     " and this program speaks " + std::to_string(kProtocol) +
                     ": use client and service of one version"};
  }
  if (header.zero != 0) {
    return Error{ErrorCode::invalid_argument, "the message's header has bits that must be zero"};
  }
  return MessageHeader{
      header.type, header.version,
      Envelope{header.request_low | uint64_t{header.request_high} << 32, header.token}};
}

namespace codec_detail {
Error unknown_type(uint16_t type) {
  return Error{ErrorCode::invalid_argument,
               "a message of type " + std::to_string(type) + " is not expected here"};
}
}  // namespace codec_detail

}  // namespace laneway::wire

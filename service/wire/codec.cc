#include "service/wire/codec.h"

#include <cstring>
#include <string>

#include "service/wire/codec_templates.h"

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

Error malformed(const MessageType& type, size_t size, const std::string& what) {
  return Error{ErrorCode::invalid_argument, std::string("message ") + type.name + " of " +
                                                std::to_string(size) +
                                                " bytes is malformed, behind its header " + what};
}

void put_header(const MessageType& type, const Envelope& envelope, std::vector<std::byte>& bytes) {
  WireHeader header;
  header.type = type.number;
  header.version = type.version;
  header.request_low = static_cast<uint32_t>(envelope.request);
  header.request_high = static_cast<uint32_t>(envelope.request >> 32);
  header.token = envelope.token;
  bytes.resize(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

Status check_header(const MessageType& type, std::span<const std::byte> bytes) {
  const Result<MessageHeader> header = decode_header(bytes);
  if (!header) return header.error();
  if (header.value().type != type.number) return unknown_type(header.value().type);
  if (header.value().version != type.version) {
    return Error{ErrorCode::unsupported,
                 std::string("message ") + type.name + " has version " +
                     std::to_string(header.value().version) + " and this program speaks " +
                     std::to_string(type.version) + ": use client and service of one version"};
  }
  if (bytes.size() > type.max_bytes) {
    return Error{ErrorCode::invalid_argument,
                 std::string("message ") + type.name + " has " + std::to_string(bytes.size()) +
                     " bytes; the limit is " + std::to_string(type.max_bytes)};
  }
  return {};
}

}  // namespace codec_detail

}  // namespace laneway::wire

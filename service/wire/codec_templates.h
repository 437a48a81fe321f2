// The bodies of the codec's templates, for the files that instantiate them: one for the messages of
// clients, one for those between the service's own processes.
#pragma once

#include <cmath>
#include <cstring>
#include <exception>
#include <string>

#include "service/wire/bounded_archive.h"
#include "service/wire/codec.h"

namespace laneway::wire {

namespace codec_detail {
void put_header(const MessageType& type, const Envelope& envelope, std::vector<std::byte>& bytes);
// The header is of this type and version, and the size below its maximum.
Status check_header(const MessageType& type, std::span<const std::byte> bytes);
Error malformed(const MessageType& type, size_t size, const std::string& what);
}  // namespace codec_detail

template <Message M>
std::vector<std::byte> encode(const M& message, const Envelope& envelope) {
  std::vector<std::byte> bytes;
  codec_detail::put_header(M::kType, envelope, bytes);
  {
    BoundedOutput archive(bytes);
    archive(message);
  }
  return bytes;
}

template <Message M>
Result<M> decode_message(std::span<const std::byte> bytes) {
  if (Status status = codec_detail::check_header(M::kType, bytes); !status) return status.error();
  BoundedInput archive(bytes.subspan(kHeaderBytes));
  M message;
  try {
    archive(message);
  } catch (const std::exception& thrown) {  // no memory left, in the worst case
    archive.fail(thrown.what());
  }
  if (!archive.failed() && archive.left() > 0) {
    archive.fail(std::to_string(archive.left()) + " bytes are left over");
  }
  if (archive.failed()) {
    return codec_detail::malformed(M::kType, bytes.size(), archive.failure());
  }
  return message;
}

}  // namespace laneway::wire

#define LW_MESSAGE(M)                                                \
  template std::vector<std::byte> encode(const M&, const Envelope&); \
  template Result<M> decode_message(std::span<const std::byte>)

// libFuzzer target over the bytes of messages: each family of the service's decodes them, and what
// one accepts must encode to the very bytes that were read. Built by clang with -DLANEWAY_FUZZ=ON;
// README.md says how to run it. The first byte picks the family; the header is made valid, so that
// the fuzzer spends itself on what lies behind it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"
#include "service/wire/codec.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::wire {
namespace {

template <class Family>
void exercise(std::span<const std::byte> bytes) {
  const Result<Family> message = decode<Family>(bytes);
  if (!message) return;
  const std::vector<std::byte> again =
      encode(message.value(), decode_header(bytes).value().envelope);
  LW_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
           "what was accepted encodes to other bytes");
}

}  // namespace
}  // namespace laneway::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace laneway::wire;
  if (size < 3) return 0;
  // A message's header with the type of the second and third byte, then the rest.
  std::vector<std::byte> bytes = encode(Done{});
  bytes.at(6) = static_cast<std::byte>(data[1]);
  bytes.at(7) = static_cast<std::byte>(data[2] & 1);
  const auto rest = std::as_bytes(std::span(data + 3, size - 3));
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  switch (data[0] % 5) {
    case 0: exercise<AnyRequest>(bytes); break;
    case 1: exercise<AnyReply>(bytes); break;
    case 2: exercise<AnyLifeline>(bytes); break;
    case 3: exercise<to_worker::Any>(bytes); break;
    default: exercise<from_worker::Any>(bytes); break;
  }
  return 0;
}

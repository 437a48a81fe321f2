// Shows that damaged messages are refused or read as exactly what they say, and make the decoder
// reserve no more than their own size justifies: every truncation of every message, every value of
// a byte at random places, counts and lengths without the bytes behind them. What is accepted must
// encode to the very bytes that were read: so nothing in a message is ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "service/wire/codec.h"
#include "tests/service/wire/counted_memory.h"
#include "tests/service/wire/every_message.h"
#include "tests/service/wire/message_filler.h"
#include "tests/support/seed.h"

namespace laneway::wire {
namespace {

using laneway::testing::for_each_message;
using laneway::testing::MessageFiller;

// Decodes, and checks what holds for any bytes.
template <class Family>
bool accepts(const std::vector<std::byte>& bytes) {
  const size_t before = laneway::testing::bytes_asked_for();
  const Result<Family> result = decode<Family>(bytes);
  // The worst is a list of the core's events of which each has a byte.
  EXPECT_LE(laneway::testing::bytes_asked_for() - before,
            4096 + bytes.size() * 2 * sizeof(lanes::Event));
  if (!result.ok()) {
    EXPECT_FALSE(result.error().message.empty());
    return false;
  }
  EXPECT_EQ(encode(result.value(), decode_header(bytes).value().envelope), bytes);
  return true;
}

template <class M>
std::vector<std::byte> sample(Random& random) {
  M message;
  MessageFiller filler(random);
  filler(message);
  return encode(message, Envelope{.request = 7});
}

TEST(CodecDamage, EveryTruncationIsRefused) {
  Random random(laneway::testing::seed_from_environment(72));
  for_each_message([&]<class M, class Family>() {
    for (int i = 0; i < 3; ++i) {
      const std::vector<std::byte> bytes = sample<M>(random);
      for (size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<long>(size));
        ASSERT_FALSE(accepts<Family>(part)) << M::kType.name << " cut to " << size;
      }
    }
  });
}

TEST(CodecDamage, BytesLeftOverAreRefused) {
  Random random(laneway::testing::seed_from_environment(73));
  for_each_message([&]<class M, class Family>() {
    std::vector<std::byte> bytes = sample<M>(random);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(accepts<Family>(bytes)) << M::kType.name;
  });
}

TEST(CodecDamage, AChangedByteIsRefusedOrReadAsItIs) {
  Random random(laneway::testing::seed_from_environment(74));
  for_each_message([&]<class M, class Family>() {
    for (int i = 0; i < 4; ++i) {
      const std::vector<std::byte> bytes = sample<M>(random);
      for (size_t at = 0; at < bytes.size(); ++at) {
        std::vector<std::byte> changed = bytes;
        changed[at] = static_cast<std::byte>(random.next());
        accepts<Family>(changed);
        if (::testing::Test::HasFailure()) FAIL() << M::kType.name << " at " << at;
      }
    }
  });
}

// The bytes of `message` with the u32 at `at` behind the header set to `value`.
template <Message M>
std::vector<std::byte> with_count(const M& message, size_t at, uint32_t value) {
  std::vector<std::byte> bytes = encode(message);
  std::memcpy(bytes.data() + kHeaderBytes + at, &value, sizeof(value));
  return bytes;
}

TEST(CodecDamage, CountsWithoutTheBytesBehindThemReserveNothing) {
  for (const uint32_t count : {5u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    EXPECT_FALSE(accepts<AnyRequest>(with_count(KillJob{.job = "abc"}, 0, count)));
    EXPECT_FALSE(accepts<from_worker::Any>(with_count(from_worker::Events{}, 0, count)));
    EXPECT_FALSE(accepts<to_worker::Any>(with_count(to_worker::Actions{}, 0, count)));
    EXPECT_FALSE(accepts<from_worker::Any>(with_count(from_worker::Report{}, 0, count)));
    EXPECT_FALSE(accepts<broker_to_supervisor::Any>(
        with_count(broker_to_supervisor::Hold{.key = "", .note = {1}}, 4, count)));
  }
}

TEST(CodecDamage, AListBeyondItsLimitIsRefusedThoughItsBytesAreThere) {
  JobAttached reply;
  reply.graphs.resize(limits::kMaxGraphsPerJob);
  EXPECT_TRUE(decode<AnyReply>(encode(reply)).ok());
  reply.graphs.resize(limits::kMaxGraphsPerJob + 1);
  const Result<AnyReply> result = decode<AnyReply>(encode(reply));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("the limit is 64"));
}

TEST(CodecDamage, AMessageBeyondItsTypesMaximumIsRefused) {
  const Result<AnyRequest> result =
      decode<AnyRequest>(encode(KillJob{.job = std::string(10'000, 'x')}));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("KillJob has 10040 bytes"));
}

TEST(CodecDamage, BoolsEnumsAndTextsThatAreNoneAreRefused) {
  std::vector<std::byte> bytes = encode(JobReport{.job = 1, .with_tapes = true});
  bytes.back() = std::byte{2};
  EXPECT_FALSE(accepts<AnyRequest>(bytes));
  bytes = encode(Failure{ErrorCode::internal, ""});
  bytes.at(kHeaderBytes) = std::byte{14};
  EXPECT_FALSE(accepts<AnyReply>(bytes));
  bytes = encode(KillJob{.job = "x"});
  bytes.back() = std::byte{0xff};
  EXPECT_FALSE(accepts<AnyRequest>(bytes));
}

}  // namespace
}  // namespace laneway::wire

// Shows that every message comes back as it was sent, and that headers of another protocol, version
// or type are refused with both numbers. Content is random.
#include "service/wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lanes/state/reason.h"
#include "tests/service/wire/every_message.h"
#include "tests/service/wire/message_filler.h"
#include "tests/support/seed.h"

namespace laneway::wire {
namespace {

using laneway::testing::for_each_message;
using laneway::testing::MessageFiller;

TEST(Codec, EveryMessageComesBackAsItWasSent) {
  Random random(laneway::testing::seed_from_environment(71));
  for_each_message([&]<class M, class Family>() {
    for (int i = 0; i < 50; ++i) {
      M message;
      MessageFiller filler(random);
      filler(message);
      Envelope envelope;
      filler(envelope.request, envelope.token);
      const std::vector<std::byte> bytes = encode(message, envelope);
      const Result<MessageHeader> header = decode_header(bytes);
      ASSERT_TRUE(header.ok());
      EXPECT_EQ(header.value().envelope, envelope);
      Result<Family> back = decode<Family>(bytes);
      ASSERT_TRUE(back.ok()) << M::kType.name << ": " << back.error().message;
      ASSERT_TRUE(std::holds_alternative<M>(back.value())) << M::kType.name;
      if constexpr (requires(const M& a) { a == a; }) {
        EXPECT_EQ(std::get<M>(back.value()), message) << M::kType.name;
      }
      EXPECT_EQ(encode(back.value(), envelope), bytes) << M::kType.name;
    }
  });
}

TEST(Codec, NumbersOfTypesAreTheirOwn) {
  std::map<uint16_t, std::string> names;
  for_each_message([&]<class M, class Family>() {
    const auto [at, fresh] = names.try_emplace(M::kType.number, M::kType.name);
    EXPECT_EQ(at->second, M::kType.name) << "both have number " << M::kType.number;
  });
  EXPECT_GT(names.size(), 50u);
}

TEST(Codec, CountsOfEnumeratorsAreThoseOfTheEnums) {
  const auto known = [](auto name_of, auto last) {
    EXPECT_STRNE(name_of(last), "unknown");
    using Enum = decltype(last);
    EXPECT_STREQ(name_of(static_cast<Enum>(static_cast<int>(last) + 1)), "unknown");
    EXPECT_EQ(kEnumeratorCount<Enum>, static_cast<int>(last) + 1);
  };
  known(error_code_name, ErrorCode::busy);
  known(lanes::reason_code_name, lanes::ReasonCode::no_way_back);
}

Error refusal(std::vector<std::byte> bytes, size_t at, uint8_t value) {
  bytes.at(at) = static_cast<std::byte>(value);
  const Result<AnyRequest> result = decode<AnyRequest>(bytes);
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error{} : result.error();
}

TEST(Codec, AnotherMagicProtocolTypeOrVersionIsRefusedByName) {
  const std::vector<std::byte> bytes = encode(KillJob{.job = "digits"});
  ASSERT_TRUE(decode<AnyRequest>(bytes).ok());
  EXPECT_THAT(refusal(bytes, 0, 'X').message, ::testing::HasSubstr("\"LNWY\""));
  const Error protocol = refusal(bytes, 4, 9);
  EXPECT_EQ(protocol.code, ErrorCode::unsupported);
  EXPECT_THAT(protocol.message, ::testing::HasSubstr("protocol 9"));
  EXPECT_THAT(protocol.message, ::testing::HasSubstr("speaks 1"));
  EXPECT_THAT(refusal(bytes, 6, 200).message, ::testing::HasSubstr("type 200"));
  const Error version = refusal(bytes, 8, 7);
  EXPECT_EQ(version.code, ErrorCode::unsupported);
  EXPECT_THAT(version.message, ::testing::HasSubstr("KillJob has version 7"));
  EXPECT_THAT(version.message, ::testing::HasSubstr("speaks 1"));
  EXPECT_THAT(refusal(bytes, 10, 1).message, ::testing::HasSubstr("zero"));
}

// Before version 2, graphs of answers numbered the kinds of their values in another order.
TEST(Codec, AnAnswerWithTheNumbersOfAnOlderVersionIsRefused) {
  for (std::vector<std::byte> bytes :
       {encode(JobCreated{}), encode(JobAttached{}), encode(GraphAdded{})}) {
    ASSERT_TRUE(decode<AnyReply>(bytes).ok());
    bytes.at(8) = std::byte{1};
    const Result<AnyReply> result = decode<AnyReply>(bytes);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::unsupported);
    EXPECT_THAT(result.error().message, ::testing::HasSubstr("has version 1 and"));
    EXPECT_THAT(result.error().message, ::testing::HasSubstr("speaks 2"));
  }
}

TEST(Codec, AMessageOfAnotherFamilyIsRefused) {
  const Result<AnyReply> result = decode<AnyReply>(encode(Shutdown{}));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("type 15"));
}

TEST(Codec, TextOfOthersThatIsNoUtf8IsReplacedOnTheWayOut) {
  const std::vector<std::byte> bytes = encode(Failure{ErrorCode::failed, "bad \xff\xc3 end"});
  const Result<Failure> back = decode_message<Failure>(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().message, "bad ?? end");
}

}  // namespace
}  // namespace laneway::wire

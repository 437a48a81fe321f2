// Shows that a streamed copy, ordered or not, writes what memcpy writes, and nothing beside it,
// wherever source and target begin and end.
#include "memory/device/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace laneway::memory {
namespace {

TEST(StreamingCopy, WritesTheRangeAndNothingElse) {
  constexpr size_t kRoom = 1024;
  std::vector<unsigned char> source(kRoom);
  for (size_t i = 0; i < kRoom; ++i) source[i] = static_cast<unsigned char>(i * 7 + 1);
  for (const size_t bytes : {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 500u}) {
    for (size_t to = 0; to < 66; ++to) {
      for (const size_t from : {size_t{0}, size_t{1}, size_t{8}, size_t{63}, to}) {
        std::vector<unsigned char> expected(kRoom, 0xee);
        const std::vector<unsigned char> before = expected;
        std::memcpy(expected.data() + to, source.data() + from, bytes);
        for (const auto copy : {streaming_copy, unordered_streaming_copy}) {
          std::vector<unsigned char> target = before;
          copy(target.data() + to, source.data() + from, bytes);
          ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
        }
      }
    }
  }
}

TEST(StreamingCopy, CopiesWhatIsLargerThanCaches) {
  const size_t bytes = (size_t{48} << 20) + 5;
  std::vector<unsigned char> source(bytes);
  for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<unsigned char>(i * 31 + i / 4096);
  std::vector<unsigned char> target(bytes, 0);
  streaming_copy(target.data(), source.data(), bytes);
  EXPECT_TRUE(target == source);
}

}  // namespace
}  // namespace laneway::memory

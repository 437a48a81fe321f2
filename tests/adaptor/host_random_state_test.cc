// Shows that a job's generator can be taken back to its mark and carried over as bytes, whatever
// was drawn: draws are made, taken back, made again, and compared.
#include "adaptor/host/host_random_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laneway::adaptor {
namespace {

using ::testing::HasSubstr;

// Uniform, integer and normal draws; an odd count of normals leaves a second one cached.
std::vector<float> draw(const RandomState& random, int64_t normals) {
  at::Tensor numbers = at::empty({8 + normals}, at::kFloat);
  numbers.narrow(0, 0, 4).uniform_(0, 1, random.generator());
  numbers.narrow(0, 4, 4).random_(0, 1000, random.generator());
  for (int64_t i = 0; i < normals; ++i)
    numbers.narrow(0, 8 + i, 1).normal_(0, 1, random.generator());
  const auto* data = numbers.const_data_ptr<float>();
  return {data, data + numbers.numel()};
}

TEST(HostRandomState, RewindsToItsMark) {
  for (const int64_t normals : {0, 1, 2, 3}) {
    HostRandomState random;
    draw(random, normals);
    random.mark();
    const auto bytes = random.get();
    const auto first = draw(random, normals);
    EXPECT_NE(random.get(), bytes);
    random.rewind();
    EXPECT_EQ(random.get(), bytes);
    EXPECT_EQ(draw(random, normals), first);
    random.rewind();  // a mark can be gone back to more than once
    EXPECT_EQ(draw(random, normals), first);
  }
}

TEST(HostRandomState, IsCarriedOverAsBytes) {
  HostRandomState from;
  draw(from, 3);
  const auto bytes = from.get();
  EXPECT_EQ(bytes.size(), 5056U);  // LANEWAY_RANDOM_STATE_BYTES
  HostRandomState to;
  ASSERT_TRUE(to.set(bytes));
  EXPECT_EQ(to.get(), bytes);
  EXPECT_EQ(draw(to, 3), draw(from, 3));
}

TEST(HostRandomState, BeginsLikeTorchsDefaultSeed) {
  HostRandomState a;
  HostRandomState b;
  EXPECT_EQ(a.get(), b.get());
  at::Generator torchs = at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom());
  torchs.set_current_seed(c10::default_rng_seed_val);
  const at::Tensor expected = at::empty({4}, at::kFloat).uniform_(0, 1, torchs);
  const auto* data = expected.const_data_ptr<float>();
  const auto drawn = draw(a, 0);
  EXPECT_EQ(std::vector<float>(drawn.begin(), drawn.begin() + 4),
            std::vector<float>(data, data + 4));
}

TEST(HostRandomState, RefusesBytesThatAreNoState) {
  HostRandomState random;
  draw(random, 1);
  const auto before = random.get();
  std::vector<std::byte> wrong(before.begin(), before.end() - 1);
  const Status shorter = random.set(wrong);
  ASSERT_FALSE(shorter);
  EXPECT_EQ(shorter.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(shorter.error().message, HasSubstr("5055 bytes is not one of torch.get_rng_state()"));
  EXPECT_FALSE(random.set({}));
  wrong.assign(before.size(), std::byte{0xFF});
  EXPECT_FALSE(random.set(wrong));
  EXPECT_EQ(random.get(), before);
}

}  // namespace
}  // namespace laneway::adaptor

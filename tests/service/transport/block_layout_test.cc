// Shows that everything in a block is aligned, in order, and inside of the stride, whatever is in
// it; and the same of initial slots.
#include "service/transport/block_layout.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "lanes/graph/limits.h"

namespace laneway::service {
namespace {

TEST(BlockLayout, PlacesEverythingInOrder) {
  const std::vector<BlockItem> inputs{{true, 100}, {false, 0}, {true, 0}, {true, 64}};
  const std::vector<BlockItem> outputs{{true, 4}, {false, 8}};
  const BlockLayout layout = block_layout(inputs, outputs);
  EXPECT_EQ(layout.inputs, (std::vector<uint64_t>{0, 128, 192, 192}));
  EXPECT_EQ(layout.outputs, (std::vector<uint64_t>{256, 320}));
  EXPECT_EQ(layout.stride, 384U);
}

TEST(BlockLayout, AnEmptyBlockStillHasAPlace) {
  EXPECT_EQ(block_layout({}, {}).stride, static_cast<uint64_t>(limits::kHostAlignment));
}

TEST(BlockLayout, TheLargestDoesNotOverflow) {
  const std::vector<BlockItem> inputs(limits::kMaxGraphInputs, {true, limits::kMaxTensorBytes});
  const std::vector<BlockItem> outputs(limits::kMaxGraphOutputs, {true, limits::kMaxTensorBytes});
  EXPECT_EQ(
      block_layout(inputs, outputs).stride,
      (uint64_t{limits::kMaxGraphInputs} + limits::kMaxGraphOutputs) * limits::kMaxTensorBytes);
}

}  // namespace
}  // namespace laneway::service

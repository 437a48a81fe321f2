// Shows that tensors over borrowed memory hold no address of their own: they follow every rebind,
// and see the dtype, sizes, strides and offset that the graph's value has.
#include "adaptor/operators/torch_tensors.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace laneway::adaptor {
namespace {

lanes::Value value_of(lanes::DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                      int64_t offset) {
  lanes::Value value;
  value.dtype = dtype;
  value.sizes = std::move(sizes);
  value.strides = std::move(strides);
  value.storage_offset = offset;
  return value;
}

TEST(BorrowedStorage, TensorsFollowARebind) {
  std::vector<float> here(6, 1.0F);
  std::vector<float> there(6, 2.0F);
  BorrowedStorage storage(24);
  const at::Tensor all = storage.view(value_of(lanes::DType::float32, {2, 3}, {3, 1}, 0), 0);
  const at::Tensor view = all.select(0, 1);
  storage.rebind(here.data());
  EXPECT_EQ(all.const_data_ptr(), here.data());
  EXPECT_EQ(view.const_data_ptr(), here.data() + 3);
  storage.rebind(there.data());
  EXPECT_EQ(view.const_data_ptr(), there.data() + 3);
  EXPECT_EQ(view.select(0, 0).item<float>(), 2.0F);
  view.fill_(5);
  EXPECT_EQ(there[3], 5.0F);
  EXPECT_EQ(here[3], 1.0F);
}

TEST(BorrowedStorage, SeesOffsetsAndStrides) {
  std::vector<int64_t> numbers(16);
  std::iota(numbers.begin(), numbers.end(), 0);
  BorrowedStorage storage(16 * 8);
  storage.rebind(numbers.data());
  // A transposed 2 x 3 piece, one element into a slot that begins 32 bytes into the image.
  const at::Tensor tensor = storage.view(value_of(lanes::DType::int64, {2, 3}, {1, 2}, 1), 32);
  EXPECT_EQ(tensor.scalar_type(), at::kLong);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      EXPECT_EQ(tensor.select(0, row).select(0, column).item<int64_t>(), 4 + 1 + row + 2 * column);
    }
  }
}

TEST(BorrowedStorage, KnowsItsOwn) {
  std::vector<float> memory(4);
  BorrowedStorage storage(16);
  BorrowedStorage other(16);
  storage.rebind(memory.data());
  other.rebind(memory.data());
  const at::Tensor tensor = storage.view(value_of(lanes::DType::float32, {4}, {1}, 0), 0);
  EXPECT_TRUE(storage.owns(tensor.narrow(0, 1, 2)));
  EXPECT_FALSE(other.owns(tensor));
  EXPECT_FALSE(storage.owns(tensor.clone()));
}

TEST(BorrowedStorage, IsNeverResized) {
  std::vector<float> memory(4);
  BorrowedStorage storage(16);
  storage.rebind(memory.data());
  const at::Tensor tensor = storage.view(value_of(lanes::DType::float32, {4}, {1}, 0), 0);
  EXPECT_THROW(tensor.resize_({5}), std::exception);
  EXPECT_EQ(storage.bytes(), 16U);
}

TEST(ScalarType, HasAnEntryForEveryDType) {
  for (uint8_t number = 0; number < lanes::kDTypeCount; ++number) {
    const auto dtype = static_cast<lanes::DType>(number);
    EXPECT_EQ(static_cast<int64_t>(c10::elementSize(scalar_type(dtype))), lanes::dtype_bytes(dtype))
        << lanes::dtype_name(dtype);
  }
  EXPECT_EQ(scalar_type(lanes::DType::bfloat16), at::kBFloat16);
  EXPECT_EQ(scalar_type(lanes::DType::float16), at::kHalf);
}

}  // namespace
}  // namespace laneway::adaptor

// CarriedValues: the values that the recorded first part of an iteration (adaptor/run/replay.h)
// leaves to the nodes behind it. When the part is replayed none of its nodes runs, so these values
// are made again: tensors over the addresses at which the recording writes. When they are dropped,
// their memory goes back to the lane's arena, as in an ordinary run (LaneArena::skip_to). Tensors
// that view the same memory do so again.
//
// Holds no memory of a lane. One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "adaptor/operators/operator_call.h"
#include "lanes/graph/graph.h"
#include "memory/lane_arena.h"

namespace laneway::adaptor {

class CarriedValues {
 public:
  using IsBorrowed = std::function<bool(const at::Tensor&)>;

  // Notes those of `indices` that have a value now. None when one of them lies neither in the arena
  // nor in borrowed memory, or when sizes, strides and dtype do not describe it completely.
  static std::optional<CarriedValues> note(std::span<const lanes::ValueIndex> indices,
                                           const ValueTable& values, const memory::LaneArena& arena,
                                           const IsBorrowed& is_borrowed);

  // Puts the values into `values`. Requires: the arena is at the position of its tape at which
  // note() was called.
  void restore(ValueTable& values) const;

 private:
  struct Block {
    void* memory = nullptr;  // null: the block has no bytes
    uint64_t bytes = 0;
    c10::Device device = c10::DeviceType::CPU;
  };
  struct View {
    lanes::ValueIndex value = lanes::kNoValue;
    size_t block = 0;
    c10::ScalarType type = c10::ScalarType::Float;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t offset = 0;
  };
  struct Kept {
    lanes::ValueIndex index = lanes::kNoValue;
    c10::IValue value;  // a number, or a view of memory that is not the iteration's
  };

  bool note_tensor(lanes::ValueIndex index, const at::Tensor& tensor,
                   const memory::LaneArena& arena);

  std::vector<Block> blocks_;
  std::vector<View> views_;
  std::vector<Kept> kept_;
};

}  // namespace laneway::adaptor

// ElementwiseChain: a run of elementwise nodes over tensors of one layout (what optimizers are made
// of), executed tile by tile: each tile of every operand is read once, goes through all nodes while
// it is in the cache, and intermediate results never become tensors. Eager execution streams each
// operand through memory once per node and pays the dispatcher for each. The bits are torch's own:
// see elementwise_kernels.h.
//
// A chain is planned from a graph's declared layouts and run on actual tensors; when those have
// other strides, run() returns false and the caller must run the nodes one by one. One thread at a
// time; a copy has nothing in common with its original, so that each thread may run one.
#pragma once

#include <cstdint>
#include <vector>

#include "adaptor/chains/elementwise_kernels.h"
#include "adaptor/operators/operator_call.h"
#include "adaptor/operators/torch_tensors.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// A number argument of a node: a constant, or a value of the iteration.
struct ChainNumber {
  double constant = 0;
  lanes::ValueIndex value = lanes::kNoValue;
  bool negated = false;
};

// The place of an operand: an entry of ElementwiseChain's tensors, or of its temporaries.
struct ChainOperand {
  bool temporary = false;
  uint32_t index = 0;
};

// One node of a chain.
struct ChainStep {
  bool is_sqrt = false;  // if false, `kernel` computes the step
  ElementwiseKernel kernel = nullptr;
  ChainOperand out, a, b, c;
  ChainNumber s, t{.constant = 1};
};

class ElementwiseChain {
 public:
  // Elements of one tile of one operand: the tiles of an Adam step's seven operands take less than
  // 256 KiB.
  static constexpr size_t kTileElements = 8'192;
  static constexpr size_t kMaxTemporaries = 4;

  // `tensors` are the values of the operands from outside the chain; all have `sizes` and
  // `strides`. `results` are values that later nodes read; each is the same tensor as an entry of
  // `tensors`.
  struct Result {
    lanes::ValueIndex value = lanes::kNoValue;
    uint32_t tensor = 0;
  };
  ElementwiseChain(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                   std::vector<lanes::ValueIndex> tensors, std::vector<ChainStep> steps,
                   std::vector<Result> results);

  // Runs the chain. Returns false and does nothing when an operand does not have the planned
  // layout.
  bool run(ValueTable& values);

 private:
  bool take_operands(const ValueTable& values);
  void take_numbers(const ValueTable& values);
  void run_tile(size_t offset, size_t count);
  float* address(const ChainOperand& operand, size_t offset);
  void square_root(float* out, float* in, size_t count);

  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<lanes::ValueIndex> tensors_;
  std::vector<ChainStep> steps_;
  std::vector<Result> results_;
  size_t elements_ = 1;

  // State of the running iteration.
  std::vector<float*> bases_;
  std::vector<std::pair<float, float>> numbers_;  // s and t by step
  std::vector<std::vector<float>> temporaries_;
  // Torch computes square roots, on views of a whole tile and of the last, shorter one.
  struct RootViews {
    BorrowedStorage in, out;
    at::Tensor in_view, out_view;
    explicit RootViews(size_t count);
    RootViews(const RootViews& other);  // views of its own
    RootViews(RootViews&&) = default;
  };
  std::vector<RootViews> roots_;  // for a whole tile, and for the last one
};

}  // namespace laneway::adaptor

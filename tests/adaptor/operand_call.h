// OperandCall: one call of one operator as a test has it: arguments as a graph's node has them, and
// what each tensor among them is like. Read from and written as a line of text, so that a call that
// broke something can be repeated by hand. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::testing {

// How a tensor comes to the operator.
enum class Route : uint8_t {
  direct,     // an input, or a slot where the operator writes it
  computed,   // made by a node before it
  disguised,  // a view made by a node before it, declared as if it were dense
};

struct OperandTensor {
  lanes::DType dtype = lanes::DType::float32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::vector<int64_t> contents;  // repeated as often as needed; empty: small numbers
  Route route = Route::direct;

  int64_t elements() const;
  // Elements of its storage up to its last one, `offset` included.
  int64_t extent() const;
  void make_dense();
};

struct OperandCall {
  std::string op;
  std::vector<lanes::NamedArgument> arguments;  // values are indices into `tensors`
  std::vector<OperandTensor> tensors;
};

// Stops the test program where the line is not one of call_text.
OperandCall parse_call(std::string_view line);
std::string call_text(const OperandCall& call);

}  // namespace laneway::testing

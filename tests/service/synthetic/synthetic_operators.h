// Synthetic operators: plain loops over floats, by the names that capture gives torch's. Each
// writes the storage of its result, or of its first argument if its name says that it works in
// place.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace laneway::testing {

struct OperatorCall {
  std::span<float> result;                  // in place: the first argument
  std::span<const std::span<float>> given;  // the tensor arguments, in their order
  double number = 0;                        // the number argument, if it has one
  uint64_t* random = nullptr;               // the job's random state
};

// invalid_argument when the call's operands make no sense; then nothing was written.
using Operator = Status (*)(const OperatorCall& call);

struct OperatorRow {
  const char* name = nullptr;
  size_t tensors = 0;  // that it is given
  bool draws = false;
  Operator run = nullptr;
};

// Null when there is none of that name.
const OperatorRow* find_operator(const std::string& name);

}  // namespace laneway::testing

// CallRig: one operator call as a graph that is loaded and run the way a job's is, with each
// operand in guarded memory of its own. What cannot be loaded or is refused by the operator is an
// outcome; what touches memory beyond its operands stops the process.
#pragma once

#include <string>

#include "tests/adaptor/operand_call.h"

namespace laneway::testing {

enum class CallOutcome : uint8_t {
  malformed,  // no graph that graph_check takes
  refused,    // not loaded, or its inputs refused
  failed,     // the operator itself, or a check of its results, said no
  done,
};

struct CallReport {
  CallOutcome outcome = CallOutcome::malformed;
  std::string message;  // why, but for `done`
};

// The numbers that the operands hold come from `seed`.
CallReport run_call(const OperandCall& call, uint64_t seed);

}  // namespace laneway::testing

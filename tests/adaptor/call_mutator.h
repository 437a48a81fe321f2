// call_mutator: breaks a valid call in one to three places, the way a graph made by hand may be
// wrong: sizes, ranks, strides, dtypes, contents, numbers, lists, missing tensors. Deterministic.
#pragma once

#include "base/random.h"
#include "tests/adaptor/operand_call.h"

namespace laneway::testing {

void mutate_call(OperandCall& call, Random& random);

}  // namespace laneway::testing

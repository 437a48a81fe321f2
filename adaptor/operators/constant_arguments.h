// constant_arguments: the arguments of a node that are the same in every iteration, as torch takes
// them: each is made of the schema's type, or refused with a sentence that says what was expected.
// Pure functions.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// T of Optional[T]; the type itself when it is none.
const c10::Type& without_optional(const c10::Type& type);

// A constant of the schema's type. An argument that is a generator is the job's own, one that is a
// device that of the resolver's choice: both are the caller's to place.
Result<c10::IValue> constant_argument(const c10::Type& type, const lanes::Argument& argument,
                                      const at::Generator& generator);
Result<c10::IValue> constant_list(const c10::Type& element, const lanes::ListArgument& list,
                                  const at::Generator& generator);

}  // namespace laneway::adaptor

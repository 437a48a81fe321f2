// constant_arguments: makes torch's values of a node's arguments that are the same in every
// iteration: each gets the schema's type, or is refused with a sentence that names the expected
// type. Pure functions.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// T of Optional[T]; any other type itself.
const c10::Type& without_optional(const c10::Type& type);

// A constant of the schema's type. A generator argument gives `generator`, the job's own. A device
// argument gives the CPU; for another device the caller must replace it.
Result<c10::IValue> constant_argument(const c10::Type& type, const lanes::Argument& argument,
                                      const at::Generator& generator);
Result<c10::IValue> constant_list(const c10::Type& element, const lanes::ListArgument& list,
                                  const at::Generator& generator);

}  // namespace laneway::adaptor

// Whether the pool may get another size: a pure function of the core's state.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/state/core_state.h"

namespace laneway::lanes {

// Errors, each with the arithmetic and the smallest pool that would do: invalid_argument when the
// reserve would leave nothing for jobs; refused when a job that exists could not run any more even
// alone, or when more images than would fit must stay in the pool: they are pinned, or there is no
// room for them outside. Without any room outside also when what lies above finds none below.
Status may_resize(const CoreState& core, Bytes capacity);

// A pool never gets larger than it was `made`: invalid_argument.
Status may_grow_to(Bytes wanted, Bytes made);

}  // namespace laneway::lanes

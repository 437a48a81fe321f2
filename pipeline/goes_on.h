// GoesOn: how a copy is stopped by whoever asked for it.
#pragma once

#include <functional>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::pipeline {

// Asked between two pieces of some MiB, with what is moved so far from the image's beginning on:
// whether the copy is wanted.
using GoesOn = std::function<bool(Bytes moved)>;

// The error of a copy that stopped because it was not.
inline Error not_wanted() { return {ErrorCode::cancelled, "the image is not wanted any more"}; }

}  // namespace laneway::pipeline

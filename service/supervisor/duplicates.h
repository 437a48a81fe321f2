// Descriptors to send away while the originals stay here.
#pragma once

#include <vector>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// One duplicate each, in the same order. Error failed when the process has no descriptor left.
Result<std::vector<Descriptor>> duplicates(const std::vector<const Descriptor*>& originals);

// Of a descriptor that somebody else owns.
Result<Descriptor> duplicate_of(int descriptor);

}  // namespace laneway::service

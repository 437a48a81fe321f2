// GraphFile: the bytes of a graph in the memory that a client shares.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// A copy, because the client may write to its memory while the graph is decoded. invalid_graph when
// it is empty or larger than limits::kMaxGraphBytes.
Result<std::vector<std::byte>> read_graph(Descriptor memfd);

}  // namespace laneway::service

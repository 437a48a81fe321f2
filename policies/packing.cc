#include "policies/packing.h"

namespace laneway::policies {

Packing::Packing() : Fifo(/*fills_gaps=*/true) {}

}  // namespace laneway::policies

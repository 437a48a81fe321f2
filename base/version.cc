#include "base/version.h"

namespace laneway {

const char* version() { return LANEWAY_VERSION; }

}  // namespace laneway

// The version of this build of Laneway. The root CMakeLists.txt reads it from
// python/laneway/VERSION.
#pragma once

namespace laneway {

// "1.2.3".
const char* version();

}  // namespace laneway

// The version of this build of Laneway: the project's, from the root CMakeLists.txt.
#pragma once

namespace laneway {

// "1.2.3".
const char* version();

}  // namespace laneway

// What `new` was asked for in this program so far, in bytes: so that a test sees what a decoder
// reserves. Replaces the program's operator new and delete. Thread-safe.
#pragma once

#include <cstddef>

namespace laneway::testing {

size_t bytes_asked_for();

}  // namespace laneway::testing

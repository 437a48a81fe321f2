#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace laneway {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "check failed: %s at %s:%d%s%s\n", condition, file, line,
               message.empty() ? "" : ": ", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace laneway

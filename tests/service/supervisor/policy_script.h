// A policy's file for tests, written into a folder of the test: a shell script, whose first words
// and end are all that the supervisor sees of it.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/check.h"

namespace laneway::testing {

// Replaces what was there. `lines`: without the first one.
inline void write_script(const std::string& path, const std::string& lines, mode_t mode = 0755) {
  {
    std::ofstream file(path, std::ios::trunc);
    file << "#!/bin/sh\n" << lines << "\n";
    LW_CHECK(file.flush().good(), path);
  }
  LW_CHECK(::chmod(path.c_str(), mode) == 0, path);
}

// Says that it is there, and waits until the service hangs up.
inline constexpr const char* kWaits = "echo here >&3\nread line <&3";

}  // namespace laneway::testing

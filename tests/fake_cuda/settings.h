// Settings: what the fake device is and may do, read once from the environment (names and meaning
// in the README); the controls change abilities later. Plain data, guarded by the Gpu's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace laneway::fake_cuda {

struct Settings {
  static Settings from_environment();

  // The ability's flag by its name ("vmm"); null when there is none.
  bool* ability(const std::string& name);

  size_t memory_bytes = size_t{4} << 30;
  int64_t delay_us = 0;      // between enqueuing and the earliest begin of each piece of work
  uint64_t seed = 1;         // of the choice between streams that could go on
  int fill = 0xDB;           // fresh memory begins with a MiB of it; -1: zero
  int64_t fault_after = -1;  // this piece of work, counted from 0, fails the device
  int fault_error = 710;
  int runtime_version = 0;  // that the runtime says it has; 0: that of the headers
  std::string notes_path;   // notes are appended to this file as they are made
  bool quiet = false;       // complaints go to stderr otherwise

  bool device = true;
  bool vmm = true;
  bool fd = true;
  bool green = true;
  bool replay = true;  // off: stream capture is refused
};

}  // namespace laneway::fake_cuda

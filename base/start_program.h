// Starts a program as a child that this process must reap. It has empty standard input, this
// process's standard error as output and error, one channel and nothing else open; default signals;
// a process group of its own; and it dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace laneway {

struct ProgramStart {
  std::string program;  // a path
  // "NAME=value"; none: this process's own.
  std::optional<std::vector<std::string>> environment;
  int channel = -1;    // stays the caller's
  int channel_at = 3;  // its number in the program
  int64_t memory = 0;  // bytes that each of its processes may have of its own, and no core is left
                       // behind; 0: as this process
};

// With which a child ends whose program cannot be run: of the shell, of the dynamic loader and of
// start_program.
inline constexpr int kExitNotLoaded = 127;

// Its pid; -1, with errno, when there is no descriptor or no process left. `not_run`, where given:
// waits until the program runs, or says why it does not (an errno; 0: it runs).
pid_t start_program(const ProgramStart& start, int* not_run = nullptr);

}  // namespace laneway

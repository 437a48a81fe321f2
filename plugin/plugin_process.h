// PluginProcess: a policy's program, started by this process, which must reap it. It has a socket
// at descriptor 3 whose other end is here, empty standard input, this process's standard error as
// output and error, and nothing else open; a process group of its own, so that all of it is ended;
// a bound on its memory; and it dies with its parent. After the object nothing of its group runs.
// For programs that have no supervisor, which starts children by itself. Move-only; not
// thread-safe; to be used by the thread that started it, whose end is the program's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace laneway::plugin {

// A program that is late by so much is given up by a service; a simulation, in which nobody waits
// for it, has more patience.
inline constexpr Duration kPatience = seconds(1);
// Of a program's data: who wants more is refused it by the system, and ends.
inline constexpr size_t kMaxMemory = size_t{2} << 30;

// Whether the file may be started as a policy: it is a file, executable, and nobody but its owner
// (this user or root) may change it. Error invalid_argument names the file, what is in the way and
// what to do.
Status check_program(const std::string& file);

class PluginProcess {
 public:
  // Error invalid_argument as check_program; failed when there is no process left.
  static Result<PluginProcess> start(const std::string& file);

  PluginProcess(PluginProcess&& other) noexcept;
  PluginProcess& operator=(PluginProcess&&) = delete;
  ~PluginProcess();

  pid_t pid() const { return pid_; }
  // Writes what can be written now, and takes it out of `bytes`. Error unavailable: nobody reads.
  Status write(std::vector<std::byte>& bytes) const;
  // Reads what is there into `buffer`; 0: nothing now. Error unavailable: nobody writes any more.
  Result<size_t> read(std::span<std::byte> buffer) const;
  // Waits, at most so long, until there is something to read or, with `to_write`, room to write.
  // Returns whether there is.
  bool wait(bool to_write, Duration most) const;

  // Ends it and all of its group. Returns what it had done by itself until then: "it ended with
  // exit code 3", "signal 11 (Segmentation fault) ended it", "it is stopped by a signal"; empty: it
  // ran. One that is about to end is given `moment` for it. Must be called at most once.
  std::string end(Duration moment);

 private:
  PluginProcess(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}

  pid_t pid_ = 0;  // 0: reaped
  int descriptor_ = -1;
};

}  // namespace laneway::plugin

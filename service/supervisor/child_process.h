// ChildProcess: a program that this process started and must reap. It is started with one channel
// back to here at a known descriptor and nothing else open but standard input (empty), output and
// error (both this process's error), in a process group of its own (a terminal's Ctrl-C reaches
// the supervisor alone), with default signals, and it dies with its parent. One that is still
// there when its owner goes is killed and reaped, and with it whatever it started in its group:
// after the object nothing of the program runs.
// Move-only; not thread-safe; to be used by the thread that spawned, whose end is the child's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// How a process ended, as waitpid says it.
struct ProcessEnd {
  int status = 0;
  bool is_known = true;  // else the process that this one is part of waited for it elsewhere

  std::string text() const;  // "exit code 3", "signal 9 (Killed)"
};

class ChildProcess {
 public:
  // Starts `program` (a path) with these variables ("NAME=value") as its environment and `channel`
  // at kSupervisorDescriptor. With `memory`, each of its processes may have so many bytes of its
  // own, and leaves no core behind; 0: as many as this process. Error failed when the program is
  // not there or there is no process left.
  static Result<ChildProcess> spawn(const std::string& program,
                                    const std::vector<std::string>& environment, Descriptor channel,
                                    Bytes memory = {});

  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Whether somebody stopped it (SIGSTOP); a debugger does not count.
  bool is_stopped() const;
  // SIGKILL to all of its group; the process is gone for good only when reap() says so.
  void kill();
  // How it ended, if it has; then nothing of it runs any more. Does not wait.
  std::optional<ProcessEnd> reap();
  // The same, waiting for its end at most so long.
  std::optional<ProcessEnd> reap_within(Duration patience);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  enum class State : uint8_t { running, ended, waited_for };
  // Of the process, which stays to be reaped. waited_for: by other code, so its number can be
  // anybody's.
  State state() const;

  pid_t pid_ = 0;  // 0: reaped
};

}  // namespace laneway::service

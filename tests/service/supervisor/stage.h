// Stage: the real lanewayd with puppets (puppet.h) for broker and workers, which a test directs.
// All waits are for a condition, with a deadline that only a hang meets; meeting it throws, which
// ends the test with what lanewayd logged.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "service/transport/descriptor.h"
#include "tests/support/scratch_folder.h"

namespace laneway::testing {

// A process that can be watched until its end, whoever reaps it.
class Watched {
 public:
  explicit Watched(pid_t pid);
  pid_t pid() const { return pid_; }
  void kill(int signal) const;
  bool is_gone() const;
  void wait_until_gone() const;
  // Until SIGSTOP has reached it.
  void wait_until_stopped() const;

 private:
  pid_t pid_;
  service::Descriptor descriptor_;
};

// A puppet as the test sees it.
class Actor {
 public:
  Actor(service::Descriptor control, pid_t pid) : control_(std::move(control)), process_(pid) {}

  // The next line that it reported or will.
  std::string next();
  // Lines up to the first that begins with `start`, which is given back.
  std::string expect(const std::string& start);
  void tell(const std::string& line);
  // Tells it, and comes back when it has done it.
  void say(const std::string& line);
  // It sends itself off; nothing is heard of it again.
  void leave(int code);

  const Watched& process() const { return process_; }
  pid_t pid() const { return process_.pid(); }
  std::string pid_text() const { return std::to_string(pid()); }

 private:
  std::string read_line();

  service::Descriptor control_;
  Watched process_;
  std::string unfinished_;
  std::deque<std::string> lines_;  // not yet asked for
};

class Stage {
 public:
  Stage();
  ~Stage();

  // Starts lanewayd with these words besides address and programs.
  void start(const std::vector<std::string>& words = {}) { start_as({}, words); }
  // The same where it may have so many open files.
  void start_limited(int files) {
    start_as({"/usr/bin/prlimit", "--nofile=" + std::to_string(files)}, {});
  }
  // The next broker or worker that comes.
  Actor broker() { return actor("broker"); }
  Actor worker() { return actor("worker"); }
  // A broker that has reported its start and what is held, and says that it serves.
  Actor serving_broker();
  // A worker that has mapped its memory and says that it is ready.
  Actor ready_worker();

  const Watched& daemon() const { return *daemon_; }
  // What lanewayd printed so far on standard output; waits for a whole line.
  std::string printed_line();
  // lanewayd's exit code; waits for it.
  int exit_code();
  std::string log() const;
  // Until lanewayd has logged it.
  void wait_for_log(const std::string& text) const;

  std::string address() const { return "ipc://" + socket(); }
  // The folder that lanewayd takes broker and worker from: links, a test may remove one.
  std::string programs() const { return folder_.path() + "/programs"; }
  std::string socket() const { return folder_.path() + "/here/laneway.sock"; }
  // What lies in the address's folder.
  std::vector<std::string> files() const;

  // A word list run as another lanewayd, to its end: exit code and standard error.
  std::pair<int, std::string> run(const std::vector<std::string>& words) const;

 private:
  // `before`: the program that becomes lanewayd, with its words.
  void start_as(std::vector<std::string> before, const std::vector<std::string>& words);
  Actor actor(const std::string& name);

  ScratchFolder folder_;
  service::Descriptor control_;
  service::Descriptor printed_;
  std::optional<Watched> daemon_;
  std::list<std::pair<std::string, Actor>> waiting_;
};

}  // namespace laneway::testing

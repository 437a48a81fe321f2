// PolicyProcess: the process of a policy from outside the tree. Its file is checked before each
// start, it has a bound of memory and a socket at descriptor 3, it is killed with all of its group,
// and it is started again by RestartRule. Another one talks to it, over the other end of that
// socket, and says when it is late or talks nonsense: its *partner*, the broker or embedded mode.
// Each partner gets a process of its own, so that nothing is left of what was said to another.
// Not thread-safe; acts only when it is called.
#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "service/supervisor/child_process.h"
#include "service/supervisor/limits.h"
#include "service/supervisor/restart_rule.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class PolicyProcess {
 public:
  struct Times {
    RestartRule::Times restart;
    Duration hang_up = limits::kHangUpPatience;
  };
  // What the partner has to know: a process started, or there is none.
  struct News {
    pid_t pid = 0;       // 0: there is none
    std::string reason;  // why the last one ended, or none can be started; empty: none has ended
    Descriptor socket;   // to the process
  };

  explicit PolicyProcess(const Times& times) : times_(times), rule_(times.restart) {}

  // This file from now on, by its absolute path, or none (empty). One that runs is killed, and a
  // new one is due, also of the same file; what ended before is forgotten.
  void set(const std::string& file, TimePoint now);
  // A partner came, who knows of no process: the one that runs is killed, and a new one is due.
  // What was given up stays so, and the partner is told.
  void partner_came(TimePoint now);
  // Nobody talks to it any more: it is killed, and none is started until a partner comes. One that
  // ended by itself a moment before ended with its partner, and is not at fault.
  void partner_left(TimePoint now);
  // The partner's word on this process: it is killed at once; or, where it `hung_up` and is about
  // to end by itself, a little later, so that its exit code is known. Nothing if it is another one.
  void failed(pid_t pid, const std::string& why, bool hung_up, TimePoint now);

  // Starts one that is due, and kills one that hung up and did not end.
  void tend(TimePoint now);
  TimePoint next_wakeup() const;
  // Looks whether it ended.
  void reap(TimePoint now);
  void was_late(Duration by);
  // Kills it and waits for its end; none is started any more.
  void stop();

  // Of the process that runs, or has ended and was not reaped; 0: there is none.
  pid_t pid() const { return process_ ? process_->pid() : 0; }
  // What happened since the last call, oldest first.
  std::deque<News> take_news() { return std::exchange(news_, {}); }

 private:
  void start(TimePoint now);
  void ended(const std::string& why, TimePoint now);
  // It is over for another reason than a fault of its own.
  void replace(TimePoint now);
  // Says so in the log when it is not the file that ran the last time.
  void note_change();

  // As it was before a process ended by itself.
  struct BeforeEnd {
    TimePoint at;
    RestartRule rule;
    std::string reason;
  };

  const Times times_;
  RestartRule rule_;
  std::optional<BeforeEnd> before_end_;  // of the last end, if it was by itself
  std::string file_;
  std::string reason_;
  std::string fault_;  // the partner's word on the one that runs
  std::string version_;
  std::optional<ChildProcess> process_;
  TimePoint start_at_ = TimePoint::never();
  TimePoint kill_at_ = TimePoint::never();
  bool has_partner_ = false;
  bool given_up_ = false;
  bool replaced_ = false;  // the one that runs was killed for no fault of its own
  std::deque<News> news_;
};

}  // namespace laneway::service

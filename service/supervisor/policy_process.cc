#include "service/supervisor/policy_process.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/start_program.h"
#include "plugin/plugin_process.h"
#include "service/supervisor/child_environment.h"
#include "service/supervisor/policy_file.h"

namespace laneway::service {

void PolicyProcess::set(const std::string& file, TimePoint now) {
  file_ = file;
  rule_ = RestartRule(times_.restart);
  reason_.clear();
  version_.clear();
  given_up_ = false;
  before_end_.reset();
  replace(now);
}

void PolicyProcess::partner_came(TimePoint now) {
  has_partner_ = true;
  news_.clear();
  replace(now);
  if (given_up_) news_.push_back({.pid = 0, .reason = reason_, .socket = {}});
}

void PolicyProcess::partner_left(TimePoint now) {
  has_partner_ = false;
  news_.clear();
  if (before_end_ && now - before_end_->at <= times_.hang_up) {
    rule_ = before_end_->rule;
    reason_ = before_end_->reason;
    given_up_ = false;
  }
  before_end_.reset();
  replace(TimePoint::never());
}

void PolicyProcess::replace(TimePoint now) {
  const bool wanted = has_partner_ && !file_.empty() && !given_up_;
  start_at_ = wanted ? now : TimePoint::never();
  kill_at_ = TimePoint::never();
  fault_.clear();
  if (!process_) return;
  replaced_ = true;
  process_->kill();
}

void PolicyProcess::failed(pid_t pid, const std::string& why, bool hung_up, TimePoint now) {
  if (!process_ || process_->pid() != pid || replaced_ || !fault_.empty()) return;
  if (hung_up) {
    kill_at_ = std::min(kill_at_, now + times_.hang_up);
    return;
  }
  fault_ = why;
  process_->kill();
}

void PolicyProcess::tend(TimePoint now) {
  if (process_ && kill_at_ <= now) {
    kill_at_ = TimePoint::never();
    fault_ = "it closed its descriptor 3 and did not end";
    process_->kill();
  }
  if (!process_ && start_at_ <= now) start(now);
}

TimePoint PolicyProcess::next_wakeup() const { return process_ ? kill_at_ : start_at_; }

void PolicyProcess::was_late(Duration by) {
  if (kill_at_ != TimePoint::never()) kill_at_ = kill_at_ + by;
}

void PolicyProcess::start(TimePoint now) {
  start_at_ = TimePoint::never();
  const auto file = checked_policy_file(file_);
  if (!file) return ended(file.error().message, now);
  note_change();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ended(std::string("no socket for it: ") + std::strerror(errno), now);
  }
  Descriptor ours(ends[0]);
  Descriptor its(ends[1]);
  // LANEWAY_FAULT is for the service's own programs: as if one had had it before.
  auto process = ChildProcess::spawn(file.value(), child_environment(1), std::move(its),
                                     Bytes(static_cast<int64_t>(plugin::kMaxMemory)));
  if (!process) return ended(process.error().message, now);
  process_.emplace(std::move(process).value());
  log_info("policy " + file_ + " started, pid " + std::to_string(process_->pid()));
  news_.push_back({.pid = process_->pid(), .reason = reason_, .socket = std::move(ours)});
}

void PolicyProcess::note_change() {
  struct stat is {};
  if (::stat(file_.c_str(), &is) != 0) return;  // its start will say so
  std::string version = std::to_string(is.st_ino) + " " + std::to_string(is.st_size) + " " +
                        std::to_string(is.st_mtim.tv_sec) + "." +
                        std::to_string(is.st_mtim.tv_nsec);
  if (!version_.empty() && version != version_) {
    log_info("policy " + file_ + " has changed since it was started last: the new one runs now");
  }
  version_ = std::move(version);
}

void PolicyProcess::reap(TimePoint now) {
  if (!process_) return;
  const auto end = process_->reap();
  if (!end) return;
  process_.reset();
  kill_at_ = TimePoint::never();
  std::string why = std::exchange(fault_, {});
  if (std::exchange(replaced_, false)) return;  // start_at_ says when the next one is due
  before_end_.reset();
  if (why.empty()) {
    before_end_ = BeforeEnd{now, rule_, reason_};
    why = "it ended: " + end->text();
    if (end->is_known && WIFEXITED(end->status) && WEXITSTATUS(end->status) == kExitNotLoaded) {
      why +=
          ", as a program does that cannot be started: is the interpreter of its first line there?";
    }
  }
  ended(why, now);
}

void PolicyProcess::ended(const std::string& why, TimePoint now) {
  const std::string whose = why.starts_with("policy ") ? "" : "policy " + file_ + ": ";
  const TimePoint next = rule_.died(now);
  given_up_ = next == TimePoint::never();
  start_at_ = next;
  reason_ = why;
  if (given_up_) {
    reason_ += "; it is not started again after " + std::to_string(times_.restart.deaths) +
               " ends within " + std::to_string(times_.restart.window.ns() / 1'000'000'000) +
               " s: mend it and set the policy again";
    log_error(whose + reason_ + "; fifo decides");
  } else {
    std::array<char, 32> delay{};
    std::snprintf(delay.data(), delay.size(), "%.1f s", (next - now).seconds());
    log_warning(whose + reason_ + "; fifo decides, and it is started again in " + delay.data());
  }
  news_.push_back({.pid = 0, .reason = reason_, .socket = {}});
}

void PolicyProcess::stop() {
  has_partner_ = false;
  news_.clear();
  replace(TimePoint::never());
  process_.reset();
}

}  // namespace laneway::service

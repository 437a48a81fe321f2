#include "service/supervisor/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/log_file.h"
#include "policies/registry.h"
#include "service/supervisor/exit_codes.h"
#include "service/supervisor/limits.h"

namespace laneway::service {
namespace {

// Rounded up, so that what is waited for is due afterwards.
int poll_milliseconds(TimePoint now, TimePoint until) {
  constexpr int64_t kNsPerMs = 1'000'000;
  constexpr int64_t kLongest = 3'600'000;
  if (until == TimePoint::never()) return -1;
  const int64_t ns = std::max<int64_t>((until - now).ns(), 0);
  return static_cast<int>(std::min((ns + kNsPerMs - 1) / kNsPerMs, kLongest));
}

}  // namespace

int Supervisor::run(const std::function<void()>& on_ready) {
  on_ready_ = on_ready;
  while (tend(punctual(clock_.now()))) wait(clock_.now());
  policy_.stop();
  return exit_code_;
}

TimePoint Supervisor::punctual(TimePoint now) {
  if (waits_until_ == TimePoint::never() || now - waits_until_ < setup_.times.late) return now;
  const Duration by = now - waits_since_;
  log_info("lanewayd did not run for a while; all waits begin anew");
  if (kill_at_ != TimePoint::never()) kill_at_ = kill_at_ + by;
  broker_.was_late(by);
  workers_.was_late(by);
  policy_.was_late(by);
  return now;
}

void Supervisor::wait(TimePoint now) {
  std::vector<pollfd> entries = {{signals_.descriptor(), POLLIN, 0}};
  const auto broker = broker_.poll_entry();
  if (broker) entries.push_back(*broker);
  workers_.add_to_poll(entries);
  TimePoint until = kill_at_;
  if (phase_ == Phase::running) {
    until = std::min(
        {until, broker_.next_wakeup(), workers_.next_wakeup(), policy_.next_wakeup(), look_at_});
  }
  waits_since_ = now;
  waits_until_ = until;
  if (::poll(entries.data(), entries.size(), poll_milliseconds(now, until)) < 0) return;
  now = clock_.now();
  if (broker && entries[1].revents != 0) broker_.handle_ready(now);
  workers_.handle_ready(entries, now);
  if (entries[0].revents != 0) on_signals(now);
}

void Supervisor::on_signals(TimePoint now) {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) continue;
    if (number == SIGHUP) {
      reopen_log();
      continue;
    }
    if (phase_ == Phase::running) {
      stop(now, kExitDone, "signal " + std::to_string(number));
    } else if (number == SIGINT) {
      kill_at_ = now;  // asked again, by somebody who does not want to wait
    }
  }
  // One SIGCHLD can stand for several children.
  const auto end = broker_.reap(now);
  if (end && phase_ == Phase::running) {
    log_warning("broker " + std::to_string(broker_.epoch()) + " ended: " + end->text());
  }
  workers_.reap(now);
  follow_broker(now);  // one that ends with its broker is not at fault
  policy_.reap(now);
}

void Supervisor::reopen_log() {
  const Status opened = reopen_log_file();
  opened ? log_info("signal " + std::to_string(SIGHUP) + ": the log goes on here")
         : log_error(opened.error().message + "; the log stays where it was");
  broker_.notify(wire::supervisor_to_broker::ReopenLog{});
}

bool Supervisor::tend(TimePoint now) {
  if (phase_ == Phase::running) tend_running(now);
  if (phase_ == Phase::ending_jobs && (broker_.stopped() || !broker_.alive())) {
    phase_ = Phase::leaving;
    broker_.hang_up();
    workers_.stop();
  }
  if (phase_ == Phase::leaving && !broker_.alive() && workers_.empty()) return false;
  if (now >= kill_at_) {
    kill_at_ = TimePoint::never();
    log_warning("not everybody left in time; killed");
    broker_.kill();
    workers_.kill_all();
  }
  return true;
}

void Supervisor::tend_running(TimePoint now) {
  if (broker_.shutdown_requested()) return stop(now, kExitDone, "a client's request");
  for (const Status& status : {broker_.tend(now), workers_.tend(now)}) {
    if (!status) return stop(now, kExitFailed, status.error().message);
  }
  if (broker_.given_up()) return stop(now, kExitFailed, "the broker dies again and again");
  if (workers_.given_up()) return stop(now, kExitFailed, workers_.why_given_up());
  tend_policy(now);
  if (now >= look_at_) look_at_sockets(now);
  if (on_ready_ && broker_.serving() && workers_.serving()) std::exchange(on_ready_, nullptr)();
}

void Supervisor::look_at_sockets(TimePoint now) {
  look_at_ = now + limits::kSocketLook;
  const auto lost = setup_.sockets.lost();
  if (lost == sockets_lost_) return;
  sockets_lost_ = lost;
  if (!lost) return log_info("the service's sockets are in their place again");
  log_error("the socket " + *lost +
            ": clients that come now do not find this service; those that are connected go on. End "
            "it when they are done (kill " +
            std::to_string(setup_.pid) +
            ") and start another, in a folder that no cleaner empties");
}

void Supervisor::tend_policy(TimePoint now) {
  if (policy_set_ != broker_.policy_changes() + 1) {
    policy_set_ = broker_.policy_changes() + 1;
    const auto plugin = policies::plugin_of(broker_.policy());
    policy_.set(plugin ? plugin->file : "", now);
  }
  follow_broker(now);
  if (const auto failed = broker_.take_policy_failure()) {
    policy_.failed(failed->pid, failed->why, failed->hung_up, now);
  }
  policy_.tend(now);
  for (PolicyProcess::News& news : policy_.take_news()) {
    std::vector<Descriptor> fds;
    if (news.socket.valid()) fds.push_back(std::move(news.socket));
    broker_.notify(wire::supervisor_to_broker::PolicyNews{.pid = news.pid, .reason = news.reason},
                   std::move(fds));
  }
}

void Supervisor::follow_broker(TimePoint now) {
  if (phase_ != Phase::running || !broker_.informed() || broker_.hung_up()) {
    if (std::exchange(policy_epoch_, 0) != 0) policy_.partner_left(now);
  } else if (policy_epoch_ != broker_.epoch()) {
    policy_epoch_ = broker_.epoch();
    policy_.partner_came(now);
  }
}

void Supervisor::stop(TimePoint now, int exit_code, const std::string& why) {
  exit_code == kExitDone ? log_info("the service ends: " + why)
                         : log_error("the service ends: " + why);
  exit_code_ = exit_code;
  phase_ = Phase::ending_jobs;
  kill_at_ = now + setup_.times.stop;
  follow_broker(now);
  broker_.stop(exit_code == kExitDone ? "" : why);
}

}  // namespace laneway::service

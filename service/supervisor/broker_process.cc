#include "service/supervisor/broker_process.h"

#include <sys/resource.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "service/supervisor/child_environment.h"
#include "service/supervisor/duplicates.h"
#include "service/supervisor/limits.h"

namespace laneway::service {

namespace {

// At a time, so that a broker that talks without end keeps nobody waiting.
constexpr int kMaxFramesARound = 1024;
// What finds no room is refused to whom it belongs to; it does not end the broker.
constexpr ChannelLimits kBrokerChannel{.takes_cut_frames = true};

// Beside what the supervisor has open for itself.
uint64_t most_held_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;
  return limit.rlim_cur - std::min<rlim_t>(limit.rlim_cur, limits::kDescriptorsOfSupervisor);
}

}  // namespace

namespace to_broker = wire::supervisor_to_broker;
namespace from_broker = wire::broker_to_supervisor;

BrokerProcess::BrokerProcess(const SupervisorSetup& setup)
    : setup_(setup),
      held_(most_held_descriptors()),
      rule_(setup.times.restart, RestartRule::Work::others),
      policy_(setup.config.policy) {}

Status BrokerProcess::tend(TimePoint now) {
  if (!process_) return start_at_ <= now ? start(now) : Status();
  if (!killed_ && kill_at_ <= now) {
    lose(channel_.valid() ? "it said nothing for too long" : "it hung up and did not end");
  }
  return {};
}

TimePoint BrokerProcess::next_wakeup() const {
  if (!process_) return start_at_;
  return killed_ ? TimePoint::never() : kill_at_;
}

Status BrokerProcess::start(TimePoint now) {
  auto ends = Channel::pair(kBrokerChannel);
  if (!ends) return ends.error();
  auto process = ChildProcess::spawn(setup_.programs + "/laneway-broker", child_environment(epoch_),
                                     std::move(ends.value().second).release());
  if (!process) return process.error();
  auto fds = duplicates({&setup_.sockets.control(), &setup_.sockets.descriptors()});
  if (!fds) return fds.error();
  auto journal = duplicate_of(setup_.journal.descriptor());
  if (!journal) return journal.error();
  fds.value().push_back(std::move(journal).value());
  process_.emplace(std::move(process).value());
  channel_ = std::move(ends.value().first);
  ++epoch_;
  serving_ = stopped_ = killed_ = false;
  holds_done_ = holds_told_ = 0;
  kill_at_ = now + setup_.times.heartbeat;
  to_broker::Start message;
  message.config = setup_.config;
  message.config.policy = policy_;
  message.wanted_pool_bytes = wanted_pool_bytes_;
  message.epoch = epoch_;
  message.supervisor_pid = setup_.pid;
  message.started_unix_ns = setup_.started_unix_ns;
  message.journal_bytes = static_cast<uint64_t>(setup_.journal.size().count());
  send(wire::encode(message), std::move(fds).value());
  feeding_ = Feeding::entries;
  next_entry_ = held_.entries().begin();
  feed();
  log_info("broker " + std::to_string(epoch_) + " started, pid " + std::to_string(process_->pid()));
  return {};
}

void BrokerProcess::feed() {
  // What a broker says is read only when it has been fed: so nothing changes under next_entry_.
  while (feeding_ == Feeding::entries && channel_.valid() && !channel_.wants_write()) {
    if (next_entry_ == held_.entries().end()) {
      feeding_ = Feeding::done;
      send(wire::encode(to_broker::HeldEnd{}), {});
      return;
    }
    std::vector<const Descriptor*> originals;
    for (const Descriptor& fd : next_entry_->fds) originals.push_back(&fd);
    auto fds = duplicates(originals);
    if (!fds) return lose("it cannot be given what is held: " + fds.error().message);
    const to_broker::Held message{.key = next_entry_->key, .note = next_entry_->note};
    ++next_entry_;
    send(wire::encode(message), std::move(fds).value());
  }
}

void BrokerProcess::send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds) {
  if (!channel_.valid()) return;
  const Status status = channel_.send(bytes, std::move(fds));
  if (!status && status.error().code != ErrorCode::unavailable) lose(status.error().message);
}

std::optional<pollfd> BrokerProcess::poll_entry() const {
  if (!channel_.valid()) return std::nullopt;
  const int events =
      (feeding_ == Feeding::done ? POLLIN : 0) | (channel_.wants_write() ? POLLOUT : 0);
  return pollfd{channel_.descriptor(), static_cast<short>(events), 0};
}

bool BrokerProcess::hung_up() const {
  if (!channel_.valid()) return true;
  pollfd entry{channel_.descriptor(), 0, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

void BrokerProcess::handle_ready(TimePoint now) {
  if (!channel_.valid()) return;
  const Status flushed = channel_.flush();
  if (flushed.ok()) feed();
  // One that is gone shows when it is read: what it has sent before is read first.
  if (feeding_ == Feeding::done) return read(now);
  if (!flushed.ok()) lost_channel(now);
}

void BrokerProcess::read(TimePoint now) {
  for (int count = 0; count < kMaxFramesARound && channel_.valid(); ++count) {
    auto frame = channel_.receive();
    if (!frame && frame.error().code == ErrorCode::unavailable) return lost_channel(now);
    if (!frame) return lose(frame.error().message);
    if (!frame.value()) break;
    auto message = wire::decode<from_broker::Any>(frame.value()->bytes);
    if (!message) return lose("it sent what is no message: " + message.error().message);
    kill_at_ = now + setup_.times.heartbeat;
    serving_ = true;
    carry_out(std::move(message).value(), *std::move(frame.value()));
  }
  if (holds_told_ == holds_done_) return;
  holds_told_ = holds_done_;
  send(wire::encode(to_broker::HoldsDone{.number = holds_done_}), {});
}

void BrokerProcess::note_hold(uint64_t number, const std::string& key, const Status& held) {
  holds_done_ = number;
  if (held) return;
  log_error("broker: " + held.error().message);
  const to_broker::HoldRefused message{.number = number, .key = key, .why = held.error().message};
  send(wire::encode(message), {});
}

void BrokerProcess::carry_out(from_broker::Any message, Frame frame) {
  std::visit(
      [&](auto&& one) {
        using M = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<M, from_broker::Hold>) {
          Status held =
              Error{ErrorCode::refused, "'" + one.key +
                                            "' cannot be held: lanewayd may open no more files; "
                                            "raise its limit (ulimit -n)"};
          if (!frame.is_cut)
            held = held_.hold({one.key, std::move(one.note), std::move(frame.fds)});
          note_hold(one.number, one.key, held);
        } else if constexpr (std::is_same_v<M, from_broker::Renote>) {
          note_hold(one.number, one.key,
                    held_.renote(one.key, std::move(one.note), one.descriptors));
        } else if constexpr (std::is_same_v<M, from_broker::Release>) {
          held_.release(one.key);
        } else if constexpr (std::is_same_v<M, from_broker::ShutdownRequested>) {
          shutdown_requested_ = true;
        } else if constexpr (std::is_same_v<M, from_broker::Stopped>) {
          stopped_ = true;
        } else if constexpr (std::is_same_v<M, from_broker::PolicyChanged>) {
          policy_ = std::move(one.policy);
          ++policy_changes_;
        } else if constexpr (std::is_same_v<M, from_broker::PolicyFailed>) {
          policy_failed_ = std::move(one);
        } else if constexpr (std::is_same_v<M, from_broker::PoolChanged>) {
          wanted_pool_bytes_ = one.wanted_bytes;
        } else {
          static_assert(std::is_same_v<M, from_broker::Heartbeat>);
        }
      },
      std::move(message));
}

void BrokerProcess::lose(const std::string& why) {
  log_warning("broker " + std::to_string(epoch_) + " is given up: " + why);
  kill();
}

void BrokerProcess::lost_channel(TimePoint now) {
  hang_up();
  kill_at_ = now + setup_.times.hang_up;
}

void BrokerProcess::was_late(Duration by) {
  if (kill_at_ != TimePoint::never()) kill_at_ = kill_at_ + by;
}

void BrokerProcess::kill() {
  hang_up();
  killed_ = true;
  if (process_) process_->kill();
}

void BrokerProcess::stop(const std::string& failure) {
  start_at_ = TimePoint::never();
  if (informed()) {
    notify(to_broker::Stop{.failure = failure});
  } else {
    kill();  // it has not got far enough to have anything to end
  }
}

std::optional<ProcessEnd> BrokerProcess::reap(TimePoint now) {
  if (!process_) return std::nullopt;
  auto end = process_->reap();
  if (!end) return std::nullopt;
  // What it said before its end counts: a Stopped, a Hold.
  if (feeding_ == Feeding::done) read(now);
  process_.reset();
  channel_ = Channel();
  if (start_at_ != TimePoint::never()) start_at_ = rule_.died(now, setup_.requests_ended());
  return end;
}

}  // namespace laneway::service

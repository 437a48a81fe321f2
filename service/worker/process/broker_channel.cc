#include "service/worker/process/broker_channel.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace laneway::service {

void BrokerChannel::connect(Channel channel) {
  MutexLock lock(mutex_);
  channel_ = std::move(channel);
  ++epoch_;
  events_ = Events::dropped;
  kept_.clear();
}

void BrokerChannel::hang_up() {
  MutexLock lock(mutex_);
  channel_ = Channel();
  events_ = Events::dropped;
  kept_.clear();
}

uint64_t BrokerChannel::epoch() {
  MutexLock lock(mutex_);
  return epoch_;
}

void BrokerChannel::send_bytes(uint64_t epoch, const std::vector<std::byte>& bytes) {
  MutexLock lock(mutex_);
  if (epoch == epoch_) send_locked(bytes);
}

void BrokerChannel::send_locked(const std::vector<std::byte>& bytes) {
  if (!channel_.valid()) return;
  if (Status sent = channel_.send(bytes); !sent) {
    // One that is gone shows when it is read; one that does not read is as good as gone.
    if (sent.error().code != ErrorCode::unavailable) {
      log_warning("the broker does not take what it is told: " + sent.error().message);
      channel_ = Channel();
    }
    return;
  }
  if (channel_.wants_write()) wake();
}

void BrokerChannel::wake() const {
  const uint64_t one = 1;
  if (::write(wake_, &one, sizeof(one)) < 0) log_error("the worker cannot wake itself");
}

void BrokerChannel::send_now(const wire::from_worker::JobGone& message) {
  const std::vector<std::byte> bytes = wire::encode(message);
  MutexLock lock(mutex_);
  send_locked(bytes);
}

bool BrokerChannel::send_now(const wire::from_worker::Iterations& message) {
  const std::vector<std::byte> bytes = wire::encode(message);
  MutexLock lock(mutex_);
  if (!channel_.valid()) return false;
  send_locked(bytes);
  return true;
}

void BrokerChannel::post(lanes::Event event) {
  wire::from_worker::Events message;
  message.events.push_back(std::move(event));
  MutexLock lock(mutex_);
  if (events_ == Events::told) return send_locked(wire::encode(message));
  if (events_ == Events::kept) kept_.push_back(std::move(message.events.front()));
}

void BrokerChannel::begin_report(uint64_t epoch) {
  MutexLock lock(mutex_);
  if (epoch == epoch_) events_ = Events::kept;
}

void BrokerChannel::report(uint64_t epoch, lanes::WorkerReport report) {
  wire::from_worker::Report message;
  message.report = std::move(report);
  const std::vector<std::byte> bytes = wire::encode(message);
  MutexLock lock(mutex_);
  if (epoch != epoch_ || events_ != Events::kept) return;
  send_locked(bytes);
  wire::from_worker::Events late;
  late.events = std::move(kept_);
  kept_.clear();
  events_ = Events::told;
  if (!late.events.empty()) send_locked(wire::encode(late));
}

int BrokerChannel::descriptor() {
  MutexLock lock(mutex_);
  return channel_.valid() ? channel_.descriptor() : -1;
}

bool BrokerChannel::wants_write() {
  MutexLock lock(mutex_);
  return channel_.valid() && channel_.wants_write();
}

void BrokerChannel::flush() {
  MutexLock lock(mutex_);
  if (channel_.valid()) (void)channel_.flush();  // one that is gone shows when it is read
}

void BrokerChannel::flush_within(Duration most) {
  const SteadyClock clock;
  const TimePoint until = clock.now() + most;
  while (wants_write()) {
    const int64_t left_ms = (until - clock.now()).ns() / 1'000'000;
    if (left_ms <= 0) return;
    pollfd entry{descriptor(), POLLOUT, 0};
    ::poll(&entry, 1, static_cast<int>(left_ms));
    MutexLock lock(mutex_);
    if (!channel_.valid() || !channel_.flush()) return;
  }
}

Result<std::optional<Frame>> BrokerChannel::receive() {
  MutexLock lock(mutex_);
  if (!channel_.valid()) return std::optional<Frame>();
  return channel_.receive();
}

}  // namespace laneway::service

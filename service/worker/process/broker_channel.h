// BrokerChannel: the worker's end of its channel to the broker. Any thread may send; one thread
// reads and flushes. Brokers come and go: each connection has an epoch, and an answer that was made
// for an earlier one goes nowhere, because request numbers begin anew with every broker. Events are
// told only behind a report: before it they speak of what the broker's core has not heard of, and
// the report covers them. Nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/standby_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class BrokerChannel {
 public:
  // `wake` is written to when there is something for the one that polls; it outlives the object.
  explicit BrokerChannel(int wake) : wake_(wake) {}

  // Takes the place of the channel that was, from which nothing is read any more.
  void connect(Channel channel) LW_EXCLUDES(mutex_);
  void hang_up() LW_EXCLUDES(mutex_);
  // Of the present connection; changes with connect alone.
  uint64_t epoch() LW_EXCLUDES(mutex_);

  // Answers of an earlier epoch, and all without a broker, are dropped.
  void send(uint64_t epoch, const wire::from_worker::Any& message) LW_EXCLUDES(mutex_) {
    send_bytes(epoch, wire::encode(message));
  }
  void send(uint64_t epoch, const wire::from_standby::Prepared& message) LW_EXCLUDES(mutex_) {
    send_bytes(epoch, wire::encode(message));
  }
  // To whatever broker there is.
  void send_now(const wire::from_worker::JobGone& message) LW_EXCLUDES(mutex_);
  // False: there is none.
  bool send_now(const wire::from_worker::Iterations& message) LW_EXCLUDES(mutex_);
  void post(lanes::Event event) LW_EXCLUDES(mutex_);
  // Events from here on are told behind the report, which is made afterwards.
  void begin_report(uint64_t epoch) LW_EXCLUDES(mutex_);
  void report(uint64_t epoch, lanes::WorkerReport report) LW_EXCLUDES(mutex_);

  // The one that polls looks again.
  void wake() const;
  // For the one that polls: -1 without a broker.
  int descriptor() LW_EXCLUDES(mutex_);
  bool wants_write() LW_EXCLUDES(mutex_);
  void flush() LW_EXCLUDES(mutex_);
  // For one that leaves: until all is written, the broker is gone or so long has passed.
  void flush_within(Duration most) LW_EXCLUDES(mutex_);
  // As Channel::receive.
  Result<std::optional<Frame>> receive() LW_EXCLUDES(mutex_);

 private:
  enum class Events : uint8_t { dropped, kept, told };

  void send_bytes(uint64_t epoch, const std::vector<std::byte>& bytes) LW_EXCLUDES(mutex_);
  void send_locked(const std::vector<std::byte>& bytes) LW_REQUIRES(mutex_);

  const int wake_;
  Mutex mutex_;
  Channel channel_ LW_GUARDED_BY(mutex_);
  uint64_t epoch_ LW_GUARDED_BY(mutex_) = 0;
  Events events_ LW_GUARDED_BY(mutex_) = Events::dropped;
  std::vector<lanes::Event> kept_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service

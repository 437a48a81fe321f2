// BrokerProcess: the broker's process as the supervisor sees it: started, given the sockets and
// everything that its predecessors wanted held, listened to, killed when it falls silent, started
// again when it dies. What it holds for brokers outlives them. Not thread-safe; acts only when it
// is called.
#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "service/supervisor/child_process.h"
#include "service/supervisor/held_table.h"
#include "service/supervisor/restart_rule.h"
#include "service/supervisor/supervisor_setup.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class BrokerProcess {
 public:
  // `setup` outlives this object.
  explicit BrokerProcess(const SupervisorSetup& setup);

  // Starts a broker when one is due, kills one that is silent for too long. Error when there is no
  // process to be had.
  Status tend(TimePoint now);
  // When tend() has something to do.
  TimePoint next_wakeup() const;
  // Its end, if it ended; from now on a new one is due, or none ever (given_up).
  std::optional<ProcessEnd> reap(TimePoint now);

  // The channel and what it waits for; nothing when there is none.
  std::optional<pollfd> poll_entry() const;
  // What poll() said of it: sends what is queued, carries out what the broker asked.
  void handle_ready(TimePoint now);

  // Knows everything held, so news of workers make sense to it. Once true for every broker.
  bool informed() const { return feeding_ == Feeding::done && channel_.valid(); }
  // It has ended, or is about to, whether or not that was noticed: it closed the channel.
  bool hung_up() const;
  // Sends the message to an informed broker; another one needs none: it gets everything first.
  template <class M>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): clang-tidy 14 sees no move in a template
  void notify(const M& message, std::vector<Descriptor> fds = {}) {
    if (informed()) send(wire::encode(message), std::move(fds));
  }

  uint64_t epoch() const { return epoch_; }  // of the last one started; 0: none
  bool alive() const { return process_.has_value(); }
  bool given_up() const { return start_at_ == TimePoint::never() && !process_; }
  bool serving() const { return serving_; }  // the running one has sent something
  bool shutdown_requested() const { return shutdown_requested_; }
  bool stopped() const { return stopped_; }
  const std::string& policy() const { return policy_; }
  // How often it was set, by brokers: also to the same one.
  uint64_t policy_changes() const { return policy_changes_; }
  // What a broker said of the policy's process, once.
  std::optional<wire::broker_to_supervisor::PolicyFailed> take_policy_failure() {
    return std::exchange(policy_failed_, std::nullopt);
  }

  // No broker is started from now on; the one that is there ends its jobs, says `stopped` and goes.
  // `failure`: what jobs' clients are told, when it is not that somebody asked for the end.
  void stop(const std::string& failure);
  // The caller did not run for so long: the broker's bound is that much later.
  void was_late(Duration by);
  void hang_up() { channel_ = Channel(); }
  void kill();

 private:
  enum class Feeding : uint8_t { entries, done };

  Status start(TimePoint now);
  // As many of the held entries as the channel takes without a queue.
  void feed();
  void send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds);
  void read(TimePoint now);
  void carry_out(wire::broker_to_supervisor::Any message, Frame frame);
  // What became of a Hold: a refusal is said at once, the rest at the end of the round.
  void note_hold(uint64_t number, const std::string& key, const Status& held);
  void lose(const std::string& why);
  // It hung up: it is about to end.
  void lost_channel(TimePoint now);

  const SupervisorSetup& setup_;
  HeldTable held_;
  // Jobs go on without a broker.
  RestartRule rule_;
  std::string policy_;
  uint64_t policy_changes_ = 0;
  std::optional<wire::broker_to_supervisor::PolicyFailed> policy_failed_;
  uint64_t wanted_pool_bytes_ = 0;  // 0: nobody asked for another size
  TimePoint start_at_;
  uint64_t epoch_ = 0;
  bool shutdown_requested_ = false;

  // Of the broker that runs.
  std::optional<ChildProcess> process_;
  Channel channel_;
  Feeding feeding_ = Feeding::entries;
  std::list<HeldTable::Entry>::const_iterator next_entry_;
  TimePoint kill_at_;        // unless it says something, or ends, before
  uint64_t holds_done_ = 0;  // the last one that it asked for
  uint64_t holds_told_ = 0;  // the last one of which it was told
  bool serving_ = false;
  bool stopped_ = false;
  bool killed_ = false;
};

}  // namespace laneway::service

// BrokerCore: the core as the broker drives it: one scheduler at a time, made anew from a worker's
// report whenever broker or worker are new, with the policy that was asked for last. Its actions go
// to the sink, and an observer is told of each scheduler, of what it takes and what it decides. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/core/core_loop.h"
#include "lanes/core/scheduler.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"
#include "lanes/state/snapshot.h"

namespace laneway::service {

// Of the schedulers of a broker, one after the other.
class SchedulersObserver : public lanes::CoreObserver {
 public:
  // A scheduler begins, which knows nothing of those before it. What follows is said of this one.
  virtual void began(const lanes::SchedulerConfig& config, const std::string& policy) = 0;
};

// Who carries what the core tells to the adviser of its policy (policies/advised.h).
class ToldPolicy {
 public:
  virtual ~ToldPolicy() = default;
  // May not post.
  virtual void tell(const lanes::TellPolicy& news) = 0;
};

class BrokerCore final : public lanes::ActionSink {
 public:
  // `clock`, `sink` and the observer, which may be null, outlive this object. invalid_argument when
  // there is no such policy.
  static Result<std::unique_ptr<BrokerCore>> make(const lanes::SchedulerConfig& config,
                                                  const std::string& policy, const Clock& clock,
                                                  lanes::ActionSink& sink,
                                                  SchedulersObserver* observer = nullptr);

  // A fresh scheduler that knows what the report says.
  void restart(lanes::WorkerReport report);
  // A scheduler that knows of no job and no worker, until the next report: nothing that the one
  // before would have had done is asked of the worker any more.
  void begin_anew();
  // No worker: nothing is posted any more until the next report, what there is stays to be seen.
  void worker_lost();
  // It has a worker, and takes events.
  bool running() const { return running_; }
  // Lost while it is not running.
  void post(lanes::Event event);
  // Those of one instant, for the core to handle together.
  void post(std::vector<lanes::Event> events);

  // invalid_argument names what is wrong with the text; the policy stays.
  Status set_policy(const std::string& policy);
  // The pool's size from now on, also of the schedulers to come. Errors as lanes::may_resize;
  // invalid_argument above the size with which the pool was made. The pool stays then.
  Status set_pool(Bytes wanted);
  lanes::Snapshot snapshot();
  // Of all schedulers, and of what went before them.
  lanes::Counters counters();
  void go_on_from(const lanes::Counters& counters) { counted_before_ += counters; }

  TimePoint next_wakeup();
  void fire_due();

  // Who is told. Must outlive this object.
  void set_told(ToldPolicy& told) { told_ = &told; }
  // News of the adviser, for this scheduler, and for those to come as long as it is there.
  void adviser(lanes::AdviserNews news);

  // Is told of schedulers from the next one on, and must outlive this object; null: nobody is told
  // of anything more.
  void set_observer(SchedulersObserver* observer);
  void carry_out(const std::vector<lanes::Action>& actions) override;

 private:
  BrokerCore(const lanes::SchedulerConfig& config, std::string policy, const Clock& clock,
             lanes::ActionSink& sink, SchedulersObserver* observer)
      : config_(config),
        policy_(std::move(policy)),
        clock_(clock),
        sink_(sink),
        observer_(observer) {}

  Status begin();
  void keep_counts();

  lanes::SchedulerConfig config_;
  std::string policy_;
  const Clock& clock_;
  lanes::ActionSink& sink_;
  SchedulersObserver* observer_;
  std::unique_ptr<lanes::CoreLoop> loop_;
  ToldPolicy* told_ = nullptr;
  bool has_adviser_ = false;
  std::set<JobId> told_of_;  // whom the adviser knows, over all schedulers
  bool running_ = false;
  // Of the schedulers before this one.
  lanes::Counters counted_before_;
  struct Times {
    std::optional<TimePoint> first;
    std::optional<TimePoint> last;
  };
  std::map<JobId, Times> times_before_;  // of iterations of jobs that were there then
};

}  // namespace laneway::service

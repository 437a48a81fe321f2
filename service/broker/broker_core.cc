#include "service/broker/broker_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "policies/registry.h"

namespace laneway::service {

Result<std::unique_ptr<BrokerCore>> BrokerCore::make(const lanes::SchedulerConfig& config,
                                                     const std::string& policy, const Clock& clock,
                                                     lanes::ActionSink& sink,
                                                     SchedulersObserver* observer) {
  std::unique_ptr<BrokerCore> core(new BrokerCore(config, policy, clock, sink, observer));
  if (Status begun = core->begin(); !begun) return begun.error();
  core->worker_lost();
  return core;
}

Status BrokerCore::begin() {
  auto policy = policies::make_policy(policy_);
  if (!policy) return policy.error();
  if (loop_ != nullptr) keep_counts();
  loop_ = std::make_unique<lanes::CoreLoop>(
      std::make_unique<lanes::Scheduler>(config_, std::move(policy).value()), clock_, *this,
      lanes::CoreLoop::Timer::cranked);
  if (observer_ != nullptr) {
    observer_->began(config_, policy_);
    loop_->observe(observer_);
  }
  return {};
}

void BrokerCore::keep_counts() {
  const lanes::Snapshot before = snapshot();
  counted_before_ = before.counters;
  times_before_.clear();
  for (const lanes::JobStatus& job : before.jobs) {
    if (job.last_iteration) times_before_[job.id] = {job.first_iteration, job.last_iteration};
  }
}

lanes::Counters BrokerCore::counters() {
  lanes::Counters all = counted_before_;
  all += loop_->read([](const lanes::Scheduler& core) { return core.counters(); });
  return all;
}

void BrokerCore::restart(lanes::WorkerReport report) {
  const Status begun = begin();
  LW_CHECK(begun.ok(), "the policy was made before");
  running_ = true;
  post(lanes::WorkerReported{std::move(report)});
  if (!has_adviser_) return;
  const std::set<JobId> before = std::exchange(told_of_, {});
  post(lanes::AdviserChanged{lanes::AdviserNews::came});
  // Jobs that ended while there was no worker: this scheduler never knew them.
  for (const JobId job : before) {
    if (told_of_.contains(job) || told_ == nullptr) continue;
    lanes::TellPolicy over;
    over.facts.job = job;
    over.gone = true;
    told_->tell(over);
  }
}

void BrokerCore::begin_anew() {
  const Status begun = begin();
  LW_CHECK(begun.ok(), "the policy was made before");
  worker_lost();
}

void BrokerCore::worker_lost() {
  running_ = false;
  loop_->post(lanes::WorkerLost{});
}

void BrokerCore::post(lanes::Event event) {
  if (running_) loop_->post(std::move(event));
}

void BrokerCore::post(std::vector<lanes::Event> events) {
  if (running_) loop_->post(std::move(events));
}

void BrokerCore::carry_out(const std::vector<lanes::Action>& actions) {
  const auto tells = [](const lanes::Action& action) {
    return std::holds_alternative<lanes::TellPolicy>(action);
  };
  if (std::none_of(actions.begin(), actions.end(), tells)) return sink_.carry_out(actions);
  // What the adviser is told is nothing for the worker, which does not wait for it either.
  std::vector<lanes::Action> others;
  std::remove_copy_if(actions.begin(), actions.end(), std::back_inserter(others), tells);
  if (!others.empty()) sink_.carry_out(others);
  if (told_ == nullptr) return;
  for (const lanes::Action& action : actions) {
    const auto* tell = std::get_if<lanes::TellPolicy>(&action);
    if (tell == nullptr) continue;
    if (tell->gone) {
      told_of_.erase(tell->facts.job);
    } else {
      told_of_.insert(tell->facts.job);
    }
    told_->tell(*tell);
  }
}

void BrokerCore::adviser(lanes::AdviserNews news) {
  has_adviser_ = news != lanes::AdviserNews::gone;
  if (news != lanes::AdviserNews::asks) told_of_.clear();
  post(lanes::AdviserChanged{news});
}

Status BrokerCore::set_policy(const std::string& policy) {
  auto made = policies::make_policy(policy);
  if (!made) return made.error();
  policy_ = policy;
  loop_->set_policy(std::move(made).value(), policy);
  return {};
}

Status BrokerCore::set_pool(Bytes wanted) {
  if (Status within = lanes::may_grow_to(wanted, config_.capacity); !within) return within;
  Status may =
      loop_->read([wanted](const lanes::Scheduler& core) { return core.may_resize(wanted); });
  if (!may) return may;
  config_.wanted_capacity = wanted;
  post(lanes::CapacityChanged{wanted});
  return {};
}

lanes::Snapshot BrokerCore::snapshot() {
  lanes::Snapshot now = loop_->read([](const lanes::Scheduler& core) { return core.snapshot(); });
  lanes::Counters all = counted_before_;
  now.counters = all += now.counters;
  for (lanes::JobStatus& job : now.jobs) {
    const auto before = times_before_.find(job.id);
    if (before == times_before_.end()) continue;
    job.first_iteration = before->second.first;
    if (!job.last_iteration) job.last_iteration = before->second.last;
  }
  // Without a worker the scheduler does not hear of it; the next one begins with it.
  if (!running_ && config_.wanted_capacity > Bytes()) now.wanted_capacity = config_.wanted_capacity;
  return now;
}

TimePoint BrokerCore::next_wakeup() { return running_ ? loop_->next_wakeup() : TimePoint::never(); }

void BrokerCore::fire_due() {
  if (running_) loop_->fire_due();
}

void BrokerCore::set_observer(SchedulersObserver* observer) {
  observer_ = observer;
  if (observer == nullptr) loop_->observe(nullptr);
}

}  // namespace laneway::service

#include "plugin/conversation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "base/number_text.h"

namespace laneway::plugin {
namespace {

Error nonsense(const std::string& what) { return {ErrorCode::invalid_argument, what}; }

}  // namespace

Conversation::Conversation(const std::string& options, uint64_t seed) {
  add_hello(to_send_, seed, options);
}

void Conversation::tell(const lanes::TellPolicy& news, const std::string& user) {
  const JobId job = news.facts.job;
  const bool was_told = told_.contains(job);
  if (news.gone && !was_told) {
    news_.erase(job);  // it came and went while the program thought
    return;
  }
  news_[job] = {news, user};
}

bool Conversation::send(TimePoint now) {
  if (is_asked() || news_.empty()) return false;
  for (const auto& [job, news] : news_) {
    if (news.what.gone) {
      add_gone(to_send_, job);
      told_.erase(job);
      continue;
    }
    add_job(to_send_, news.what.facts, news.user);
    told_.insert(job);
    last_told_ = std::max(last_told_, job);
  }
  news_.clear();
  asked_at_ = now;
  add_instant(to_send_, now, ++asked_);
  return true;
}

Status Conversation::heard(std::span<const std::byte> bytes) {
  reader_.add(bytes);
  while (true) {
    Result<std::optional<Said>> said = reader_.next();
    if (!said) return said.error();
    if (!said.value()) return {};
    const bool is_hello = std::holds_alternative<SaidHello>(*said.value());
    if (is_hello == said_hello_) {
      return nonsense(is_hello ? "it said Hello twice" : "it did not say Hello first");
    }
    Status taken = std::visit([this](const auto& what) { return take(what); }, *said.value());
    if (!taken) return taken;
  }
}

Status Conversation::take(const SaidHello& hello) {
  if (hello.version != kVersion) {
    return nonsense("it speaks version " + std::to_string(hello.version) +
                    " of the frames of policies, and this Laneway version " +
                    std::to_string(kVersion) +
                    ": use the laneway.policy or laneway_policy.hpp of "
                    "this installation");
  }
  said_hello_ = true;
  return {};
}

Status Conversation::take(const lanes::Advice& advice) {
  if (!advice.job.valid() || advice.job > last_told_) {
    return nonsense("it ranks job " + std::to_string(advice.job.value()) +
                    ", of which it was never told: rank the jobs that it is given");
  }
  if (done_ == asked_) return nonsense("it ranks jobs without being asked");
  // One that is over meanwhile is nobody's fault.
  if (told_.contains(advice.job)) advice_[advice.job] = advice;
  return {};
}

Status Conversation::take(const WakeAt& wake) {
  if (done_ == asked_) return nonsense("it says when to wake it without being asked");
  if (wake.time && *wake.time <= asked_at_) {
    return nonsense("it wants to be woken at " + seconds_text(*wake.time - TimePoint()) +
                    " s, and it is " + seconds_text(asked_at_ - TimePoint()) +
                    " s already: give a later time, or none");
  }
  wakes_at_ = wake.time.value_or(TimePoint::never());
  return {};
}

Status Conversation::take(const Done& done) {
  if (done_ == asked_ || done.number != asked_) {
    return nonsense("it says that it is done with instant " + std::to_string(done.number) +
                    ", and the last one it was asked about is " + std::to_string(asked_));
  }
  done_ = asked_;
  return {};
}

std::vector<lanes::Event> Conversation::take_advice() {
  std::vector<lanes::Event> events;
  for (const auto& [job, advice] : advice_) events.emplace_back(advice);
  advice_.clear();
  return events;
}

}  // namespace laneway::plugin

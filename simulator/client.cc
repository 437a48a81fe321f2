#include "simulator/client.h"

#include <algorithm>

namespace laneway::simulator {

lanes::JobOffered Client::offer() const {
  lanes::JobOffered offer;
  offer.job = id_;
  offer.session = SessionId(id_.value());
  offer.options = job_.options;
  offer.options.iteration_time = job_.estimate;
  offer.persistent = job_.persistent;
  offer.ephemeral = job_.ephemeral;
  offer.context_key = job_.context_key;
  return offer;
}

uint64_t Client::submissions_after(uint64_t ended) const {
  return job_.gap == Duration() ? 0 : std::min(ended, job_.iterations - submitted_);
}

void Client::submit(uint64_t iterations) {
  const uint64_t made = std::min(iterations, job_.iterations - submitted_);
  submitted_ += made;
  queued_ += made;
}

void Client::complete(uint64_t iterations) {
  result.iterations += iterations;
  queued_ -= iterations;
}

void Client::wait(TimePoint now) {
  if (!std::exchange(waits_, true)) waits_since_ = now;
}

void Client::end_wait(TimePoint now) {
  result.longest_wait = longest_wait(now);
  if (std::exchange(waits_, false)) result.waited += now - waits_since_;
}

Duration Client::longest_wait(TimePoint now) const {
  return waits_ ? std::max(result.longest_wait, now - waits_since_) : result.longest_wait;
}

}  // namespace laneway::simulator

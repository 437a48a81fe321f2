#include "simulator/link.h"

#include <cmath>

#include "base/check.h"

namespace laneway::simulator {

void Link::add(TimePoint now, const Transfer& transfer) {
  waiting_.push_back(transfer);
  if (waiting_.size() == 1) begin(now);
}

bool Link::drop(TimePoint now, JobId job) {
  const bool first = !waiting_.empty() && waiting_.front().job == job;
  const bool any = std::erase_if(waiting_, [job](const Transfer& t) { return t.job == job; }) > 0;
  if (first) begin(now);
  return any;
}

Link::Transfer Link::finish(TimePoint now) {
  LW_CHECK(next() <= now, "the transfer is not done");
  const Transfer done = waiting_.front();
  waiting_.pop_front();
  moved_ += done.bytes;
  begin(now);
  return done;
}

void Link::begin(TimePoint now) {
  if (waiting_.empty()) return;
  done_ = now;
  if (bytes_per_s_ == 0) return;
  const auto bytes = static_cast<double>(waiting_.front().bytes.count());
  done_ = now + Duration(std::llround(bytes * 1e9 / static_cast<double>(bytes_per_s_)));
}

}  // namespace laneway::simulator

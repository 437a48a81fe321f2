// Link: one direction of the way between the pool and what lies outside. One transfer at a time, in
// the order in which they were asked for, at a fixed rate. Deterministic, not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"

namespace laneway::simulator {

class Link {
 public:
  enum class What : uint8_t { place, evict, save, move };
  struct Transfer {
    JobId job;
    What what = What::place;
    Bytes bytes;  // 0: there is nothing to copy
  };

  // 0: copies take no time.
  explicit Link(int64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  void add(TimePoint now, const Transfer& transfer);
  // Those of the job are given up, the one under way included; whether there was one.
  bool drop(TimePoint now, JobId job);
  // When the one under way is done; never: there is none.
  TimePoint next() const { return waiting_.empty() ? TimePoint::never() : done_; }
  // Requires: next() is not after `now`.
  Transfer finish(TimePoint now);
  Bytes moved() const { return moved_; }  // by transfers that were done

 private:
  void begin(TimePoint now);

  int64_t bytes_per_s_;
  std::deque<Transfer> waiting_;  // the first one is under way
  TimePoint done_;                // of that one
  Bytes moved_;
};

}  // namespace laneway::simulator

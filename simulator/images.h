// Images: the worker's side of images in virtual time: they come, leave, are saved ahead and move
// as the core asks, over one link each way, and every answer is an event. An image that is equal to
// its copy outside leaves at once; of one whose beginning stayed in the pool the rest comes.
// Deterministic, not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "simulator/link.h"

namespace laneway::simulator {

// Bytes a second between the pool and outside, each way; 0: copies take no time.
struct CopyRates {
  int64_t in = 0;
  int64_t out = 0;
};

class Images {
 public:
  // Copies from one place in the pool to another take no time. Answers are appended to `events`,
  // which must outlive the object.
  Images(CopyRates rates, std::vector<lanes::Event>& events)
      : in_(rates.in), out_(rates.out), inside_(0), events_(events) {}

  // Of jobs 1 to `count`. Requires: nothing is under way.
  void resize(size_t count) { images_.resize(count); }
  void carry_out(TimePoint now, const lanes::PlaceImage& asked);
  void carry_out(TimePoint now, const lanes::EvictImage& asked);
  void carry_out(TimePoint now, const lanes::SaveImage& asked);
  void carry_out(TimePoint now, const lanes::MoveImage& asked);
  void carry_out(TimePoint now, const lanes::DropImage& asked);
  void carry_out(const lanes::DropCopy& asked) { image(asked.job).clean = false; }
  // An iteration of the job begins to write.
  void written(TimePoint now, JobId job);

  TimePoint next() const;
  // Answers what is done by now.
  void finish(TimePoint now);

  uint64_t evictions(JobId job) const { return images_.at(job.value() - 1).evictions; }
  uint64_t evictions() const { return evictions_; }
  Bytes moved_in() const { return in_.moved(); }
  Bytes moved_out() const { return out_.moved(); }

 private:
  struct Image {
    bool clean = false;  // the copy at `copy` is whole and equal
    bool saving = false;
    lanes::OutsidePlace copy;
    uint64_t evictions = 0;
  };

  Image& image(JobId job) { return images_.at(job.value() - 1); }
  void stop_saving(TimePoint now, JobId job);
  void done(const Link::Transfer& transfer);

  Link in_;
  Link out_;
  Link inside_;
  std::vector<lanes::Event>& events_;
  std::vector<Image> images_;  // of job n the n-th
  uint64_t evictions_ = 0;
};

}  // namespace laneway::simulator

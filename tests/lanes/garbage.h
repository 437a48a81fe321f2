// Garbage: reports and events of a worker that says anything, some of which makes sense.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "lanes/state/checked_policy.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"

namespace laneway::lanes {

class Garbage {
 public:
  explicit Garbage(Random& random) : random_(random) {}
  // Whose notes the reports have from now on.
  void set_policy(std::string_view name) { known_policy_ = note_key(name); }

  WorkerReport report() {
    WorkerReport report;
    for (uint64_t i = random_.below(8); i > 0; --i) {
      report.regions.push_back({RegionId(number(12)), LaneId(number(6)), bytes(), bytes()});
    }
    for (uint64_t i = random_.below(12); i > 0; --i) report.jobs.push_back(job());
    report.last_turn = TurnId(number(20));
    report.last_region = RegionId(number(20));
    return report;
  }
  Event event() {
    const JobId id(number(14));
    switch (random_.below(18)) {
      case 0: return WorkReady{id};
      case 1: return ImagePlaced{id, random_.chance(0.7)};
      case 2: return JobEnded{id, random_.chance(0.5)};
      case 3: return NeedChanged{id, bytes()};
      case 4: return WorkerLost{};
      case 5: return WorkerReported{report()};
      case 6: return TimerFired{};
      case 7: return ImageDirty{id};
      case 8: return ImageLeft{id};
      case 9: return CopyFailed{id};
      case 14: return TimeLearnt{id, Duration(static_cast<int64_t>(random_.next()))};
      case 12: return TurnPaused{TurnId(number(40))};
      case 13:
        return TurnResumed{TurnId(number(40)), Duration(static_cast<int64_t>(random_.next()))};
      case 11: return ImageSaved{id, random_.chance(0.5)};
      case 16: return AdviserChanged{static_cast<AdviserNews>(random_.below(3))};
      case 17: return Advice{id, advice()};
      case 10: return ResidencyWanted{id, static_cast<Residency>(random_.below(4))};
      default:
        return TurnEnded{.turn = TurnId(number(40)),
                         .end = static_cast<TurnEnd>(random_.below(4)),
                         .iterations = random_.below(5),
                         .busy = microseconds(10),
                         .more_ready = random_.chance(0.5),
                         .ephemeral = bytes()};
    }
  }

 private:
  uint64_t number(uint64_t most) {
    return random_.chance(0.03) ? UINT64_MAX - random_.below(3) : random_.below(most);
  }
  Bytes bytes() {
    if (random_.chance(0.03)) return Bytes(static_cast<int64_t>(random_.next()));
    const int64_t count = random_.between(0, 60) * 64;
    return Bytes(random_.chance(0.05) ? count + random_.between(-9, 9) : count);
  }
  // Any bits are a number, or none.
  policies::JobAdvice advice() {
    const auto number = [this] { return std::bit_cast<double>(random_.next()); };
    return {.value = number(),
            .per_busy_s = random_.chance(0.5) ? 0 : number(),
            .per_wait_s = random_.chance(0.5) ? 0 : number(),
            .slice = Duration(static_cast<int64_t>(random_.next())),
            .busy = Duration(static_cast<int64_t>(random_.next() >> 1)),
            .waiting = Duration(static_cast<int64_t>(random_.next() >> 1))};
  }
  Tier tier() {
    const uint64_t any = random_.below(4);  // the last one is no tier
    return static_cast<Tier>(random_.chance(0.1) ? any : random_.between(1, 2));
  }
  // Most of them have what belongs to their state.
  ImageLife image() {
    ImageLife life;
    life.state = static_cast<ImageState>(random_.below(kImageStateCount));
    if (random_.chance(0.5)) life.state = ImageState::here;
    if (random_.chance(0.2)) life.state = ImageState::absent;
    const bool comes = life.state == ImageState::away || life.state == ImageState::arriving;
    const bool goes = life.state == ImageState::saving || life.state == ImageState::leaving;
    life.clean = random_.chance(comes ? 0.9 : goes ? 0.1 : 0.25);
    life.saves = random_.chance(0.02);
    if (random_.chance(life.clean || goes ? 0.95 : 0.03)) life.copy = {tier(), bytes()};
    if (random_.chance(0.03)) life.prefix = {bytes(), bytes()};
    if (random_.chance(0.02)) life.moves_to = bytes();
    return life;
  }
  ReportedJob job() {
    ReportedJob job;
    job.offer.job = JobId(number(14));
    job.offer.session = SessionId(number(4));
    job.offer.persistent = bytes();
    job.offer.ephemeral = bytes();
    job.offer.context_key = random_.below(2);
    job.offer.options.total_iterations = random_.next();
    job.offer.offered_at = TimePoint(static_cast<int64_t>(random_.next()));
    job.image = image();
    if (job.image.in_pool() != random_.chance(0.05)) job.lane = LaneId(1 + number(5));
    job.image_offset = bytes();
    job.image_size = random_.chance(0.8) ? std::max(job.offer.persistent, Bytes(64)) : bytes();
    job.ready = random_.chance(0.5);
    job.over = random_.chance(0.1);
    job.iterations = random_.next();
    job.busy = Duration(static_cast<int64_t>(random_.next()));
    if (random_.chance(0.4)) job.turn = TurnId(number(20));
    job.paused = random_.chance(0.1);
    job.pinned = random_.chance(0.2);
    job.learnt.policy = known_policy_;
    job.learnt.lane = random_.chance(0.8) ? job.lane : LaneId(number(6));
    const auto any = [this] { return static_cast<int64_t>(random_.next()); };
    job.learnt.note = {random_.chance(0.3) ? 1 : any(), random_.chance(0.3) ? 0 : any()};
    return job;
  }

  Random& random_;
  uint64_t known_policy_ = 0;
};

}  // namespace laneway::lanes

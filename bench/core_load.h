// CoreLoad: a worker and its clients for a Scheduler, as a stream of events in virtual time. It
// answers actions as a worker would (images are placed, granted turns run and end, recalled ones
// end early) and offers, feeds and ends jobs as clients would. Deterministic for its shape: the
// same actions give the same events. Small and fast, so that a bench that counts it in measures
// the core all the same. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"

namespace laneway::bench {

constexpr uint32_t kCrowdedPlaces = 700;
constexpr Duration kCopyTime = milliseconds(10);  // 100 MiB at 10 GB/s

struct LoadShape {
  uint32_t jobs = 1'000;  // that exist at any time
  uint64_t seed = 1;
  // Without: every job always has work, and its iterations get longer turn by turn, so that the
  // shortest one is another each time; every event ends a turn. With: jobs of all lengths pause,
  // finish, are cancelled, and a new one comes for each that goes.
  bool arrivals = false;
  // As without arrivals, in a pool that holds kCrowdedPlaces of the images: the others are outside,
  // and images leave and come back all the time, in kCopyTime each.
  bool crowded = false;
};

class CoreLoad {
 public:
  explicit CoreLoad(const LoadShape& shape);

  struct Timed {
    TimePoint at;
    lanes::Event event;
  };
  // The next event, a TimerFired if `wakeup` is due before it. There always is one.
  Timed next(TimePoint wakeup);
  // What the core asked for after that event.
  void carry_out(const std::vector<lanes::Action>& actions);

 private:
  enum class Kind : uint8_t { offer, placed, left, work, turn_end, leave };
  struct Entry {
    int64_t at_ns = 0;
    uint64_t order = 0;  // ties go by it
    Kind kind = Kind::offer;
    uint64_t id = 0;    // of the job, or of the turn
    uint64_t lane = 0;  // of a turn
    bool operator>(const Entry& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };
  struct Client {
    int64_t iteration_ns = 0;
    uint64_t left = 0;  // iterations
    uint64_t total = 0;
    bool leaving = false;
  };
  struct OpenTurn {
    TurnId id;  // none: no turn is open in this lane
    uint64_t job = 0;
    uint64_t iterations = 0;
  };

  void add(Duration after, Kind kind, uint64_t id, uint64_t lane = 0);
  void add_client();
  lanes::Event event_of(const Entry& entry);
  bool is_stale(const Entry& entry) const;
  lanes::JobOffered offer(uint64_t job);
  lanes::TurnEnded end_turn(uint64_t lane);
  void granted(const lanes::Turn& turn);
  void recalled(const lanes::RecallTurn& recall);
  Client& client(uint64_t job) { return clients_[job - 1]; }

  LoadShape shape_;
  Random random_;
  TimePoint now_;
  uint64_t order_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Client> clients_;  // job n is the n-th
  std::vector<OpenTurn> turns_;  // by lane
};

}  // namespace laneway::bench

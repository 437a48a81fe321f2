// LaneWait: how a lane's thread waits for its next piece of work, or its next turn. While a turn is
// open whose job has links, the thread waits on an EventPoll for their requests and for what else
// may wake it: one hop from a client to the executor; before it sleeps it spins, where that pays
// off. Jobs without links (embedded mode) pay nothing for that. A thread that waits ends its OpenMP
// threads after a while (thread_team.h).
//
// Guarded by the worker's mutex, which a wait releases meanwhile. Only the lane's thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "service/transport/adaptive_spin.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/common/event_poll.h"
#include "service/worker/common/lane_teams.h"
#include "service/worker/jobs/link.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::service {

class LaneWait final : public LaneTeams::Waiter {
 public:
  // The context must outlive the wait.
  LaneWait(WorkerContext& context, LaneId lane)
      : context_(context), lane_(lane), spin_(context.clock) {}

  // A turn of the job begins, or the one that is open ends: the requests of its links wake the
  // lane from here on, or no longer. `others_wait`: for a turn of it, so the next one comes soon.
  void follow(std::shared_ptr<WorkerJob> job) LW_REQUIRES(kBookkeeping);
  void unfollow(bool others_wait) LW_REQUIRES(kBookkeeping);
  // A link joins, or leaves, the job that is followed.
  void add(const Link& link) LW_REQUIRES(kBookkeeping);
  void drop(const Link& link) LW_REQUIRES(kBookkeeping);

  // Something that the thread may wait for is there: every wait ends.
  void arrived() override LW_REQUIRES(kBookkeeping);
  // An iteration used OpenMP threads, which the lane's thread may keep now.
  void team_used() LW_REQUIRES(kBookkeeping);
  bool keeps_team() const LW_REQUIRES(kBookkeeping) { return team_used_.has_value(); }

  // Waits until arrived is called, or a link has a request if `for_requests`, and for at most so
  // long. May return early: the caller must look again. Requires of for_requests: a job is followed
  // and a request of it could be taken now. What prevents that wakes the lane when it is over; to
  // look at rings until then would be to spin, with the mutex that it waits for.
  void wait(bool for_requests, std::optional<Duration> most = {}) LW_REQUIRES(kBookkeeping);
  // As wait, by a thread with nothing in flight, which ends its OpenMP threads when it has kept
  // them without use for long enough.
  void rest(bool for_requests, std::optional<Duration> longest) LW_REQUIRES(kBookkeeping);
  // The lane's thread ends its OpenMP threads, if it keeps any; releases the mutex meanwhile.
  void end_team() LW_REQUIRES(kBookkeeping);

 private:
  // Spins until a link has a request or arrived is called; whether the caller must look again
  // before it sleeps.
  bool spin() LW_REQUIRES(kBookkeeping);
  // Carries out what the core decides until that is a turn of this lane, or it takes too long;
  // whether arrived was called. Other threads come before it.
  bool look_for_turn() LW_REQUIRES(kBookkeeping);
  // How long the thread keeps OpenMP threads without using them; nothing: until another lane
  // computes with some.
  std::optional<Duration> team_rest() const LW_REQUIRES(kBookkeeping);

  // Somebody is woken, decides and answers within this time.
  static constexpr Duration kLooksForTurn = microseconds(400);

  WorkerContext& context_;
  const LaneId lane_;
  std::shared_ptr<WorkerJob> job_ LW_GUARDED_BY(kBookkeeping);  // that is followed
  // When an iteration of the lane last used OpenMP threads; empty when the thread keeps none.
  std::optional<TimePoint> team_used_ LW_GUARDED_BY(kBookkeeping);
  bool polling_ LW_GUARDED_BY(kBookkeeping) = false;  // the thread waits in poll_
  bool turn_is_near_ LW_GUARDED_BY(kBookkeeping) = false;
  CondVar wake_;
  std::unique_ptr<EventPoll> poll_;    // made for the first job with links
  std::atomic<uint64_t> arrivals_{0};  // calls of arrived: written with the mutex held

  // The thread's own.
  AdaptiveSpin spin_;
  std::vector<std::shared_ptr<Link>> watched_;  // by spin
};

}  // namespace laneway::service

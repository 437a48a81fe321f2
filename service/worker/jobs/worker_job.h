// WorkerJob: a job as the worker keeps it: its torch side, its graphs, its queue, where it is.
// Plain record: the worker's mutex guards everything below the line; what is above it belongs to
// whoever has set `running`.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptor/device/device_job.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lanes/state/image_life.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/job_offered.h"
#include "lanes/state/reason.h"
#include "pipeline/image_arrival.h"
#include "pipeline/initial_image.h"
#include "pipeline/outside_images.h"
#include "service/journal/journal.h"
#include "service/wire/job_spec.h"
#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/guarded_state.h"
#include "service/worker/jobs/journalled_image.h"
#include "service/worker/jobs/link.h"
#include "service/worker/jobs/open_turn.h"
#include "service/worker/run/work.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

class JobLane;
struct WorkerContext;

// What a job is made from.
struct NewJob {
  // What the core is told of it, also a core that comes later; `ephemeral` is the worker's to set.
  lanes::JobOffered offer;
  adaptor::MadeJob torch;
  GraphOrigin origin{};            // of its first graph
  pipeline::InitialImage initial;  // of no bytes when the job is larger than the pool
  uint32_t user = 0;               // uid
  // Of jobs of other processes: where the job's steps are written down.
  std::optional<JobJournal> journal{};
  bool recovered = false;  // the journal tells of a predecessor's work
};

struct WorkerJob {
  enum class Phase : uint8_t { waiting, placed, ended };

  explicit WorkerJob(NewJob from) : WorkerJob(from, first_graph(from)) {}

  const lanes::JobOffered offer;
  const JobId id = offer.job;
  const std::string& name = offer.options.name;
  const uint32_t user;
  const std::unique_ptr<adaptor::DeviceJob> torch;
  std::optional<JobJournal> journal;
  uint32_t enqueued = 0;  // iterations that its lane has not retired yet
  // `choice`, `missing` and `restore_pending` are changed with the mutex held, too: to read them,
  // either is enough.
  GuardedState guard;

  // --- changed with the mutex held, by the thread that has set `running` or when none has: to read
  // them, either is enough --------------------------------------------------------------------
  Phase phase = Phase::waiting;      // placed: what runs may use the image (life.is_usable())
  pipeline::InitialImage initial;    // the image's bytes until it is placed
  std::byte* image = nullptr;        // where they are then
  uint64_t copy_checksum = 0;        // of its copy outside of the pool
  std::optional<Error> quarantined;  // why none of its iterations is run any more

  // --- guarded by the worker's mutex -----------------------------------------------------------
  std::map<uint32_t, GraphHandle> graphs LW_GUARDED_BY(kBookkeeping);  // by number
  uint32_t next_graph LW_GUARDED_BY(kBookkeeping) = 0;                 // numbers are not used twice
  lanes::Reason reason LW_GUARDED_BY(kBookkeeping);                    // while it waits
  std::optional<Error> end_reason
      LW_GUARDED_BY(kBookkeeping);  // why it ended, when not by its client's wish
  std::optional<Error> close_reason
      LW_GUARDED_BY(kBookkeeping);                 // what its links are told, unless end_reason
  LaneId admitted LW_GUARDED_BY(kBookkeeping);     // the lane that it was admitted into
  Bytes image_offset LW_GUARDED_BY(kBookkeeping);  // where its memory is, once it has some
  Bytes image_size LW_GUARDED_BY(kBookkeeping);
  JobLane* lane LW_GUARDED_BY(kBookkeeping) = nullptr;  // while a turn is open
  uint64_t iterations LW_GUARDED_BY(kBookkeeping) = 0;  // of turns that have ended
  Duration busy LW_GUARDED_BY(kBookkeeping);            //
  uint64_t uncounted LW_GUARDED_BY(kBookkeeping) = 0;   // as in ReportedJob
  lanes::IterationSum measured LW_GUARDED_BY(kBookkeeping);
  lanes::Learnt learnt LW_GUARDED_BY(kBookkeeping);    // for a core that takes over
  bool recovered LW_GUARDED_BY(kBookkeeping) = false;  // until the journal was looked at
  bool running LW_GUARDED_BY(kBookkeeping) =
      false;  // an iteration or a state access is under way, or in flight
  uint32_t visitors LW_GUARDED_BY(kBookkeeping) =
      0;  // wait for it to be idle; no next piece of work starts before
  uint32_t suspected LW_GUARDED_BY(kBookkeeping) =
      0;  // iterations that it still does with the device to itself
  // Where its image is and what is being done with it, or is to be as soon as a thread has time for
  // it. change_image changes it. While it is arriving, iterations may run, which wait for
  // `arrival`; nothing else may use the image.
  lanes::ImageLife life LW_GUARDED_BY(kBookkeeping);
  bool placing LW_GUARDED_BY(kBookkeeping) = false;  // a thread was asked to bring it into the pool
  // Whole a moment later than `life` is, when the core was told.
  pipeline::ImageArrival arrival;
  Bytes prefix_wanted LW_GUARDED_BY(kBookkeeping);   // as the core was told last
  bool closing LW_GUARDED_BY(kBookkeeping) = false;  // no further work is taken
  std::deque<std::shared_ptr<Work>> queue LW_GUARDED_BY(kBookkeeping);
  std::weak_ptr<Work> outgrew LW_GUARDED_BY(kBookkeeping);  // the last that did not fit its lane
  // Other processes that submit; their requests come after what is queued.
  std::vector<std::shared_ptr<Link>> links LW_GUARDED_BY(kBookkeeping);
  size_t next_link LW_GUARDED_BY(kBookkeeping) = 0;  // whose turn it is among them
  CondVar changed;                                   // phase, running, booked
  // Iterations that its client was answered of before its graphs' plans knew of them; how many of
  // them those know of by now. Who asks for the plans waits, so a client finds what it has heard
  // of.
  std::atomic<uint64_t> answered{0};
  uint64_t booked LW_GUARDED_BY(kBookkeeping) = 0;
  // As life.clean, for who writes the image and has no time for the mutex.
  std::atomic<bool> clean{false};
  // What the link carried of it per second when it came the last time; 0: not known.
  std::atomic<int64_t> link_rate{0};
  JobShown& shown() { return journal ? journal->shown() : shown_here; }
  const JobShown& shown() const { return journal ? journal->shown() : shown_here; }
  JobShown shown_here;  // without a journal

  // Whether the job's image is outside of the pool only, or was and is on its way back.
  bool is_away() const { return phase == Phase::waiting && clean; }
  bool is_arriving() const LW_REQUIRES(kBookkeeping) {
    return life.state == lanes::ImageState::arriving;
  }
  // The only way to change `life`: `step` is one of its steps, or several; what others read of it
  // without the mutex follows.
  template <class Step>
  void change_image(const Step& step) LW_REQUIRES(kBookkeeping) {
    step(life);
    clean = life.clean;
    // Written only by a step that changes it: who has set `running` reads it without the mutex.
    const Phase next = life.is_usable() ? Phase::placed : Phase::waiting;
    if (phase != Phase::ended && phase != next) phase = next;
  }
  // Writes down what `step` will make of it; to be called before anybody is told or may rely on it.
  template <class Step>
  void write_ahead(const Step& step) LW_REQUIRES(kBookkeeping) {
    if (!journal) return;
    lanes::ImageLife then = life;
    step(then);
    write_down(then, copy_checksum, *journal);
  }
  // Whether the core may ask for that now. Else it does not know yet that the job was closed.
  bool may_become(lanes::ImageState next) const LW_REQUIRES(kBookkeeping) {
    return phase == Phase::placed && lanes::image_transition_allowed(life.state, next);
  }
  // Its image as a report says it (lanes/state/report.h).
  lanes::ImageLife image_life() const LW_REQUIRES(kBookkeeping);
  // To be called before the image in the pool is written: the copy outside does not equal it any
  // more. Returns whether there was one, so that the core must be told.
  bool outdate_copy() LW_REQUIRES(kBookkeeping);
  // Counts an iteration that went well for a job that is suspected of a worker's death; the last
  // that it needs acquits it.
  void served() LW_REQUIRES(kBookkeeping);
  // Ends the suspicion, as when no work is left.
  void acquit() LW_REQUIRES(kBookkeeping);
  // Whether there is work.
  bool ready() const LW_REQUIRES(kBookkeeping);
  // Puts `work`, which was not run to its end, before all other work again. `did_not_fit`: it did
  // not fit the lane.
  void run_again(const std::shared_ptr<Work>& work, bool did_not_fit) LW_REQUIRES(kBookkeeping);
  // The next piece of work, if there is any.
  std::shared_ptr<Work> take_next() LW_REQUIRES(kBookkeeping);
  // The next request of a link, if it is an access to the state that can be done at once and
  // nothing is before it.
  std::shared_ptr<Work> take_access(const pipeline::OutsideImages& outside)
      LW_REQUIRES(kBookkeeping);
  // `pool`: the one that the image is placed in. Requires: is_accessible.
  pipeline::SlotPlaces places(memory::PoolAccess& pool,
                              const pipeline::OutsideImages& outside) const
      LW_REQUIRES(kBookkeeping);
  // Whether the state can be accessed where it is: that of an away job is only read, and in memory;
  // first bytes in files not at all.
  bool is_accessible(bool writes, const pipeline::OutsideImages& outside) const
      LW_REQUIRES(kBookkeeping);
  // An object for the link's next request: one that no request uses, else a new one.
  std::shared_ptr<RingWork> free_work(Link& link) LW_REQUIRES(kBookkeeping);
  // What is next in that link, if anything is.
  std::shared_ptr<Work> take_from(Link& link) LW_REQUIRES(kBookkeeping);
  // Success while it takes further work, or why it does not.
  Status check_open() const LW_REQUIRES(kBookkeeping);
  // Why it takes no further work; and why what was queued in it does not run.
  Error closed() const LW_REQUIRES(kBookkeeping);
  Error over() const LW_REQUIRES(kBookkeeping);
  // The link of that number, or null.
  Link* find_link(uint32_t number) const LW_REQUIRES(kBookkeeping);
  // Tells the clients of all links that the job is over. Requires: nothing of the job runs.
  void close_links() LW_REQUIRES(kBookkeeping);
  // The time of an iteration of the first graph, as this job or one with an equal graph measured
  // it last; 0: not known.
  Duration iteration_estimate() const LW_REQUIRES(kBookkeeping);
  // What a lane must have for any of its graphs.
  Bytes need() const LW_REQUIRES(kBookkeeping);
  // Training steps count against the job's declared total; all iterations do where there are none.
  // Those that count and were not planned are probes.
  IterationKind kind_of(const WorkerGraph& graph, bool planned) const LW_REQUIRES(kBookkeeping);
  // Adds what a turn that ends has done.
  void account(const OpenTurn& turn) LW_REQUIRES(kBookkeeping);
  // The number under which the graph is known from now on: the next, or the one that it had before.
  uint32_t add(std::unique_ptr<adaptor::DeviceGraph> graph, GraphOrigin origin,
               std::optional<uint32_t> number = {}) LW_REQUIRES(kBookkeeping);

 private:
  static GraphHandle first_graph(NewJob& from);
  WorkerJob(NewJob& from, GraphHandle first);
};

using JobHandle = std::shared_ptr<WorkerJob>;

// Before the job's image in the pool is written: what lies outside is not it any more, and the core
// hears of it. Requires: the caller has set WorkerJob::running.
void outdate_copy(WorkerContext& context, WorkerJob& job);

}  // namespace laneway::service

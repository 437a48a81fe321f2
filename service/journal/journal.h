// Journal: the records of journal_layout.h, mapped, and JobJournal, the steps of one job in it.
// Every step is safe against the process being killed inside of it. Written by the active worker
// alone. Different jobs may be journalled by different threads; one job by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/journal/journal_layout.h"

namespace laneway::service {

// Failures of the device during work of a job, after which the job is not run again: one of them
// may have been caused by another job at the same time.
inline constexpr uint32_t kMaxSuspicions = 2;

// A request as the journal names it.
struct RequestOrigin {
  uint64_t link = 0;
  uint64_t sequence = 0;
  friend bool operator==(const RequestOrigin&, const RequestOrigin&) = default;
};

// What a successor has to do first for a job.
struct JobRecovery {
  enum class Verdict : uint8_t {
    nothing,    // no request ever went through
    publish,    // `origin` is over; it only may still have to be counted in its ring
    run_again,  // `origin` left no trace
    rewrite,    // `origin` is a write_state: it comes before all other requests, or the job fails
    restore,  // `origin` died in its commit phase: the state must be restored before it runs again
    spoiled,  // `origin` failed there, and was answered: the job is over
  };
  Verdict verdict = Verdict::nothing;
  RequestOrigin origin;
  uint64_t number = 0;  // of the request
};

class JobJournal {
 public:
  // `ended`: the header's.
  JobJournal(JobRecord& record, std::atomic<uint64_t>& ended) : record_(&record), ended_(&ended) {}

  JobId job() const { return JobId(record_->job.load(std::memory_order_acquire)); }

  // Makes it the record of `job`, whatever it was. `random_state` is at most
  // limits::kRandomStateRoom bytes.
  void open(JobId job, std::span<const std::byte> random_state);
  // The job has ended. Stays, so that a successor that gets the job again knows.
  void close();
  bool is_over() const { return record_->over.load(std::memory_order_acquire) != 0; }

  // The job has memory; its bytes are there once `placed` was called.
  void placing(LaneId lane, Bytes offset, Bytes size);
  // The job is in another lane, whatever its image is doing. Does nothing when it has none, which
  // another thread may say meanwhile.
  void change_lane(LaneId lane);
  void placed();
  // The image lies there from now on, whole, in as many bytes as before.
  void moved(Bytes offset);
  // None until `placing`.
  LaneId lane() const { return LaneId(record_->lane.load(std::memory_order_acquire)); }
  bool is_placed() const {
    return lane().valid() && record_->placed.load(std::memory_order_acquire) != 0;
  }
  Bytes image_offset() const;
  Bytes image_size() const;

  // A whole copy of the image outside of the pool, equal to it. `tier`: 1 … 3, as the core numbers
  // them; `offset`: a multiple of 4.
  struct Copy {
    uint32_t tier = 0;
    Bytes offset;
    uint64_t checksum = 0;
  };
  void keep_copy(const Copy& copy);
  void drop_copy();
  std::optional<Copy> copy() const;
  // The image is no more in the pool: the copy is the job's state. Requires: there is one.
  void left();
  void pin(bool pinned);
  bool is_pinned() const { return record_->pinned.load(std::memory_order_acquire) != 0; }
  JobShown& shown() const { return record_->shown; }

  // Steps of a request. begin may be repeated (the request was abandoned without a trace).
  void begin(RequestOrigin origin);
  void begin_writing(RequestOrigin origin);  // a write_state
  void enter_commit();
  // What the request had written was taken back: it is running, and left no trace.
  void take_back();
  // It left the state partly written, and was answered: nobody may go on with the job.
  void spoil();
  // Outputs and the slot's status have been written. `random_state`: as it is now, empty when it
  // is as before. `counts`: a completed iteration, which took so long.
  void end(std::span<const std::byte> random_state, bool counts, Duration took);

  // The device failed while it had work of this job: counts it, with the sentence for its clients.
  // `alone`: of no other job, so this one ends without being given another try.
  void suspect(const std::string& what, bool alone);
  // The worker died of what the job did at that node (a signal, or it hung): counts it, from one on
  // when it is another place than before.
  void blame(const std::string& what, uint32_t graph, uint32_t node);
  // The worker died because the machine's memory ran out while it was at the present request:
  // counts it, and returns how often that has happened in a row.
  uint32_t count_out_of_memory();
  // The worker died of the job, wherever in its iterations it was: it is tried alone, or not again
  // (`for_good`). Whom more is counted against already stays so.
  void blame_once(const std::string& what, bool for_good);
  // It was not to be tried again, and is: the next death at the same place is counted as the last
  // one was.
  void release_from_quarantine();
  // What it had under way then has run well since, with nobody else at work.
  void acquit();
  bool is_suspect() const;
  // The sentence for its clients when the job is not to be tried again: kMaxSuspicions were
  // counted.
  std::optional<std::string> blamed() const;
  // The worker itself died of what is counted, and not its device.
  bool died_of_it() const;
  // … and the machine's memory ran out each time.
  bool ran_out_of_memory() const;
  // How often it is counted.
  uint32_t suspicions() const;
  // The sentence about the failure, if it is the reason why the present request did not end.
  std::optional<std::string> suspected() const;

  JobRecovery recover() const;
  // Of the present request; those below it are over.
  uint64_t number() const;
  uint64_t iterations() const;
  Duration busy() const;
  // `bytes` bytes of it, which stay as they are until end.
  std::span<const std::byte> random_state(size_t bytes) const;

 private:
  uint64_t word() const { return record_->word.load(std::memory_order_acquire); }
  const JournalTotals& totals() const;
  void start(RequestOrigin origin, JournalPhase phase);
  void change(JournalPhase phase);  // of the present request
  void write_suspicion(const std::string& what);
  std::string suspicion_text() const;

  JobRecord* record_;
  std::atomic<uint64_t>* ended_;
};

class Journal {
 public:
  // Maps kJournalBytes of `descriptor`, which stays the caller's; a fresh file (zeros) becomes a
  // journal. invalid_argument when the size, or what is in it, is not a journal's.
  static Result<std::unique_ptr<Journal>> map(int descriptor);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The record of that index, below limits::kMaxJobs.
  JobJournal job(uint32_t index);
  // What the lane is at; its thread's alone.
  LaneNotes& notes(LaneId lane);
  // As notes_of numbers them.
  LaneNotes& notes(size_t number);

  // Where the active worker shows how much of the recovery memory is in use.
  std::atomic<uint64_t>& recovery_used();
  // Whether the supervisor noted that the last worker was killed because the machine's memory ran
  // out; then it is not noted any more.
  bool take_out_of_memory();

  struct Region {
    LaneId lane;
    RegionId region;
    Bytes offset;
    Bytes size;
  };
  // A region was opened or changed: the former or the new one stands, whenever the worker dies.
  void set_region(const Region& region);
  void close_region(LaneId lane);
  // By lane.
  std::vector<Region> regions() const;

 private:
  explicit Journal(JournalMemory* memory) : memory_(memory) {}

  JournalMemory* const memory_;
};

}  // namespace laneway::service

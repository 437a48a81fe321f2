#include "service/journal/journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"

namespace laneway::service {
namespace {

// JobRecord::suspicion_place of a worker's death that has no node.
constexpr uint64_t kNoNodeAtAll = UINT64_MAX;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;

RequestOrigin load(const JournalOrigin& origin) {
  return {.link = origin.link.load(relaxed), .sequence = origin.sequence.load(relaxed)};
}

}  // namespace

void JobJournal::open(JobId job, std::span<const std::byte> random_state) {
  LW_CHECK(random_state.size() <= limits::kRandomStateRoom, "the state fits its room");
  JobRecord& record = *record_;
  record.job.store(0, release);
  record.lane.store(0, release);
  record.placed.store(0, relaxed);
  record.over.store(0, relaxed);
  record.suspicions.store(0, relaxed);
  record.suspicion_place.store(0, relaxed);
  record.out_of_memory_times.store(0, relaxed);
  record.pinned.store(0, relaxed);
  record.copy.store(0, relaxed);
  record.shown.clear();
  record.totals[0].iterations.store(0, relaxed);
  record.totals[0].busy_ns.store(0, relaxed);
  if (!random_state.empty()) {
    std::memcpy(record.random[0].data(), random_state.data(), random_state.size());
  }
  record.word.store(journal_word(0, 0, JournalPhase::idle), relaxed);
  record.job.store(job.value(), release);
}

void JobJournal::close() { record_->over.store(1, release); }

void JobJournal::placing(LaneId lane, Bytes offset, Bytes size) {
  record_->image_offset.store(static_cast<uint64_t>(offset.count()), relaxed);
  record_->image_bytes.store(static_cast<uint64_t>(size.count()), relaxed);
  record_->lane.store(lane.value(), release);
}

void JobJournal::change_lane(LaneId lane) {
  uint64_t before = record_->lane.load(relaxed);
  while (before != 0 && !record_->lane.compare_exchange_weak(before, lane.value(), release)) {
  }
}

void JobJournal::placed() { record_->placed.store(1, release); }

void JobJournal::moved(Bytes offset) {
  record_->image_offset.store(static_cast<uint64_t>(offset.count()), release);
}

void JobJournal::keep_copy(const Copy& copy) {
  record_->copy_checksum.store(copy.checksum, relaxed);
  record_->copy.store(static_cast<uint64_t>(copy.offset.count()) << 2 | copy.tier, release);
}

void JobJournal::drop_copy() { record_->copy.store(0, release); }

std::optional<JobJournal::Copy> JobJournal::copy() const {
  const uint64_t word = record_->copy.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return Copy{.tier = static_cast<uint32_t>(word & 3),
              .offset = Bytes(static_cast<int64_t>(word >> 2)),
              .checksum = record_->copy_checksum.load(relaxed)};
}

// Between the two stores the image is as one on its way back into the same range.
void JobJournal::left() {
  record_->placed.store(0, release);
  record_->lane.store(0, release);
}

void JobJournal::pin(bool pinned) { record_->pinned.store(pinned ? 1 : 0, release); }

Bytes JobJournal::image_offset() const {
  return Bytes(static_cast<int64_t>(record_->image_offset.load(std::memory_order_acquire)));
}

Bytes JobJournal::image_size() const {
  return Bytes(static_cast<int64_t>(record_->image_bytes.load(relaxed)));
}

void JobJournal::begin(RequestOrigin origin) { start(origin, JournalPhase::running); }

void JobJournal::begin_writing(RequestOrigin origin) { start(origin, JournalPhase::writing); }

void JobJournal::start(RequestOrigin origin, JournalPhase phase) {
  const uint64_t now = word();
  const uint64_t number = number_of(now);
  // What began before and left no trace is forgotten first: a word never speaks of half an origin.
  if (phase_of(now) != JournalPhase::idle) {
    record_->word.store(journal_word(number, half_of(now), JournalPhase::idle), release);
  }
  JournalOrigin& mine = record_->origins[number % 2];
  mine.link.store(origin.link, release);
  mine.sequence.store(origin.sequence, release);
  record_->word.store(journal_word(number, half_of(now), phase), release);
}

void JobJournal::enter_commit() { change(JournalPhase::committing); }
void JobJournal::take_back() { change(JournalPhase::running); }
void JobJournal::spoil() { change(JournalPhase::spoiled); }

void JobJournal::change(JournalPhase phase) {
  const uint64_t now = word();
  record_->word.store(journal_word(number_of(now), half_of(now), phase), release);
}

uint64_t JobJournal::number() const { return number_of(word()); }

void JobJournal::end(std::span<const std::byte> random_state, bool counts, Duration took) {
  LW_CHECK(random_state.size() <= limits::kRandomStateRoom, "the state fits its room");
  const uint64_t now = word();
  const uint64_t next = number_of(now) + 1;
  const JournalTotals& before = totals();
  JournalTotals& after = record_->totals[next % 2];
  const uint64_t iterations = before.iterations.load(relaxed);
  const int64_t busy_ns = before.busy_ns.load(relaxed);
  after.iterations.store(counts ? iterations + 1 : iterations, release);
  after.busy_ns.store(counts ? busy_ns + took.ns() : busy_ns, release);
  uint64_t half = half_of(now);
  if (!random_state.empty()) {
    half = 1 - half;
    std::memcpy(record_->random[half].data(), random_state.data(), random_state.size());
  }
  record_->word.store(journal_word(next, half, JournalPhase::idle), release);
  ended_->fetch_add(1, relaxed);
}

void JobJournal::write_suspicion(const std::string& what) {
  JobRecord& record = *record_;
  const size_t bytes = std::min(what.size(), record.suspicion_text.size());
  std::memcpy(record.suspicion_text.data(), what.data(), bytes);
  record.suspicion_bytes.store(static_cast<uint32_t>(bytes), relaxed);
  record.suspicion_iterations.store(iterations(), relaxed);
}

void JobJournal::blame(const std::string& what, uint32_t graph, uint32_t node) {
  JobRecord& record = *record_;
  const uint64_t place = (uint64_t{graph} << 32 | node) + 1;
  const uint32_t before = record.suspicions.load(relaxed);
  const bool again = record.suspicion_place.load(relaxed) == place && before > 0;
  // Who is blamed already stays so.
  const bool counts_on = again || (died_of_it() && before >= kMaxSuspicions);
  write_suspicion(what);
  record.suspicion_place.store(place, release);
  record.suspicions.store(counts_on ? before + 1 : 1, release);
}

uint32_t JobJournal::count_out_of_memory() {
  JobRecord& record = *record_;
  const uint64_t at = number();
  const bool again = record.out_of_memory_number.load(relaxed) == at;
  const uint32_t times = (again ? record.out_of_memory_times.load(relaxed) : 0) + 1;
  record.out_of_memory_number.store(at, relaxed);
  record.out_of_memory_times.store(times, release);
  return times;
}

void JobJournal::blame_once(const std::string& what, bool for_good) {
  JobRecord& record = *record_;
  if (record.suspicions.load(relaxed) >= kMaxSuspicions) return;
  write_suspicion(what);
  record.suspicion_place.store(kNoNodeAtAll, release);
  record.suspicions.store(for_good ? kMaxSuspicions : 1, release);
}

void JobJournal::release_from_quarantine() {
  record_->out_of_memory_times.store(0, relaxed);
  record_->suspicions.store(kMaxSuspicions - 1, release);
}

bool JobJournal::died_of_it() const { return record_->suspicion_place.load(relaxed) != 0; }

bool JobJournal::ran_out_of_memory() const {
  return record_->suspicion_place.load(relaxed) == kNoNodeAtAll;
}

uint32_t JobJournal::suspicions() const {
  return record_->suspicions.load(std::memory_order_acquire);
}

void JobJournal::suspect(const std::string& what, bool alone) {
  JobRecord& record = *record_;
  write_suspicion(what);
  const uint32_t before = died_of_it() ? 0 : record.suspicions.load(relaxed);
  record.suspicion_place.store(0, release);
  record.suspicions.store(alone ? kMaxSuspicions : before + 1, release);
}

std::optional<std::string> JobJournal::blamed() const {
  if (record_->suspicions.load(std::memory_order_acquire) < kMaxSuspicions) return {};
  return suspicion_text();
}

std::optional<std::string> JobJournal::suspected() const {
  if (!is_suspect() || record_->suspicion_iterations.load(relaxed) != iterations()) return {};
  return suspicion_text();
}

void JobJournal::acquit() { record_->suspicions.store(0, release); }

bool JobJournal::is_suspect() const {
  return record_->suspicions.load(std::memory_order_acquire) > 0;
}

std::string JobJournal::suspicion_text() const {
  const size_t bytes = record_->suspicion_bytes.load(relaxed);
  const auto& text = record_->suspicion_text;
  return {text.data(), std::min(bytes, text.size())};
}

JobRecovery JobJournal::recover() const {
  const uint64_t now = word();
  const uint64_t number = number_of(now);
  JobRecovery recovery;
  recovery.number = number;
  recovery.origin = load(record_->origins[number % 2]);
  switch (phase_of(now)) {
    case JournalPhase::idle:
      if (number == 0) return {};
      recovery.verdict = JobRecovery::Verdict::publish;
      recovery.number = number - 1;
      recovery.origin = load(record_->origins[(number - 1) % 2]);
      break;
    case JournalPhase::running: recovery.verdict = JobRecovery::Verdict::run_again; break;
    case JournalPhase::committing: recovery.verdict = JobRecovery::Verdict::restore; break;
    case JournalPhase::writing: recovery.verdict = JobRecovery::Verdict::rewrite; break;
    default: recovery.verdict = JobRecovery::Verdict::spoiled; break;
  }
  return recovery;
}

const JournalTotals& JobJournal::totals() const { return record_->totals[number_of(word()) % 2]; }

uint64_t JobJournal::iterations() const { return totals().iterations.load(relaxed); }

Duration JobJournal::busy() const { return Duration(totals().busy_ns.load(relaxed)); }

std::span<const std::byte> JobJournal::random_state(size_t bytes) const {
  const std::span<const std::byte> state = record_->random[half_of(word())];
  return state.first(std::min(bytes, state.size()));
}

Result<std::unique_ptr<Journal>> Journal::map(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_size != static_cast<off_t>(kJournalBytes)) {
    return Error{ErrorCode::invalid_argument, "descriptor " + std::to_string(descriptor) + " has " +
                                                  std::to_string(status.st_size) +
                                                  " bytes, a journal has " +
                                                  std::to_string(kJournalBytes)};
  }
  void* mapped = ::mmap(nullptr, kJournalBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    return Error{ErrorCode::failed, std::string("mapping the journal: ") + std::strerror(errno)};
  }
  auto journal = std::unique_ptr<Journal>(new Journal(static_cast<JournalMemory*>(mapped)));
  JournalHeader& header = journal->memory_->header;
  if (header.magic.load(std::memory_order_acquire) == 0) {
    header.version.store(kJournalVersion, relaxed);
    header.jobs.store(limits::kMaxJobs, relaxed);
    header.first_job.store(offsetof(JournalMemory, jobs), relaxed);
    header.job_bytes.store(sizeof(JobRecord), relaxed);
    header.magic.store(kJournalMagic, release);
  }
  const uint32_t version = header.version.load(relaxed);
  if (header.magic.load(relaxed) != kJournalMagic || version != kJournalVersion ||
      header.jobs.load(relaxed) != limits::kMaxJobs) {
    return Error{ErrorCode::invalid_argument,
                 "the journal is not one of version " + std::to_string(kJournalVersion) +
                     ": supervisor and worker must be of the same build"};
  }
  return journal;
}

Journal::~Journal() { ::munmap(memory_, kJournalBytes); }

JobJournal Journal::job(uint32_t index) { return {memory_->jobs.at(index), memory_->header.ended}; }

std::atomic<uint64_t>& Journal::recovery_used() { return memory_->header.recovery_used; }

bool Journal::take_out_of_memory() {
  return memory_->header.out_of_memory.exchange(0, std::memory_order_acq_rel) != 0;
}

LaneNotes& Journal::notes(size_t number) { return notes_of(*memory_, number); }

LaneNotes& Journal::notes(LaneId lane) { return memory_->lanes.at(lane.value() - 1).notes; }

void Journal::set_region(const Region& region) {
  LaneRecord& record = memory_->lanes.at(region.lane.value() - 1);
  const uint64_t next = 1 - record.current.load(relaxed) % 2;
  LaneRegion& other = record.regions[next];
  other.region.store(region.region.value(), relaxed);
  other.offset.store(static_cast<uint64_t>(region.offset.count()), relaxed);
  other.bytes.store(static_cast<uint64_t>(region.size.count()), relaxed);
  record.current.store(next, release);
}

void Journal::close_region(LaneId lane) {
  set_region({.lane = lane, .region = {}, .offset = {}, .size = {}});
}

std::vector<Journal::Region> Journal::regions() const {
  std::vector<Region> found;
  for (size_t lane = 0; lane < memory_->lanes.size(); ++lane) {
    const LaneRecord& record = memory_->lanes[lane];
    const LaneRegion& region = record.regions[record.current.load(std::memory_order_acquire) % 2];
    if (region.region.load(relaxed) == 0) continue;
    found.push_back({.lane = LaneId(lane + 1),
                     .region = RegionId(region.region.load(relaxed)),
                     .offset = Bytes(static_cast<int64_t>(region.offset.load(relaxed))),
                     .size = Bytes(static_cast<int64_t>(region.bytes.load(relaxed)))});
  }
  return found;
}

}  // namespace laneway::service

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

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;

constexpr uint64_t make_word(uint64_t number, uint64_t half, JournalPhase phase) {
  return number << 3 | half << 2 | static_cast<uint64_t>(phase);
}
constexpr uint64_t number_of(uint64_t word) { return word >> 3; }
constexpr uint64_t half_of(uint64_t word) { return word >> 2 & 1; }
constexpr JournalPhase phase_of(uint64_t word) { return static_cast<JournalPhase>(word & 3); }

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
  record.totals[0].iterations.store(0, relaxed);
  record.totals[0].busy_ns.store(0, relaxed);
  if (!random_state.empty()) {
    std::memcpy(record.random[0].data(), random_state.data(), random_state.size());
  }
  record.word.store(make_word(0, 0, JournalPhase::idle), relaxed);
  record.job.store(job.value(), release);
}

void JobJournal::close() { record_->over.store(1, release); }

void JobJournal::placing(LaneId lane, Bytes offset, Bytes size) {
  record_->image_offset.store(static_cast<uint64_t>(offset.count()), relaxed);
  record_->image_bytes.store(static_cast<uint64_t>(size.count()), relaxed);
  record_->lane.store(lane.value(), release);
}

void JobJournal::placed() { record_->placed.store(1, release); }

Bytes JobJournal::image_offset() const {
  return Bytes(static_cast<int64_t>(record_->image_offset.load(relaxed)));
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
    record_->word.store(make_word(number, half_of(now), JournalPhase::idle), release);
  }
  JournalOrigin& mine = record_->origins[number % 2];
  mine.link.store(origin.link, release);
  mine.sequence.store(origin.sequence, release);
  record_->word.store(make_word(number, half_of(now), phase), release);
}

void JobJournal::enter_commit() {
  const uint64_t now = word();
  record_->word.store(make_word(number_of(now), half_of(now), JournalPhase::committing), release);
}

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
  record_->word.store(make_word(next, half, JournalPhase::idle), release);
}

void JobJournal::suspect(const std::string& what, bool alone) {
  JobRecord& record = *record_;
  const size_t bytes = std::min(what.size(), record.suspicion_text.size());
  std::memcpy(record.suspicion_text.data(), what.data(), bytes);
  record.suspicion_bytes.store(static_cast<uint32_t>(bytes), relaxed);
  record.suspicion_iterations.store(iterations(), relaxed);
  const uint32_t before = record.suspicions.load(relaxed);
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
    case JournalPhase::committing: recovery.verdict = JobRecovery::Verdict::failed; break;
    case JournalPhase::writing: recovery.verdict = JobRecovery::Verdict::rewrite; break;
  }
  return recovery;
}

const JournalTotals& JobJournal::totals() const { return record_->totals[number_of(word()) % 2]; }

uint64_t JobJournal::iterations() const { return totals().iterations.load(relaxed); }

Duration JobJournal::busy() const { return Duration(totals().busy_ns.load(relaxed)); }

std::vector<std::byte> JobJournal::random_state(size_t bytes) const {
  const auto& state = record_->random[half_of(word())];
  const size_t count = std::min<size_t>(bytes, state.size());
  return {state.begin(), state.begin() + static_cast<ptrdiff_t>(count)};
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

JobJournal Journal::job(uint32_t index) { return JobJournal(memory_->jobs.at(index)); }

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

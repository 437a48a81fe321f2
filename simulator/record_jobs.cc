#include "simulator/record_jobs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>
#include <variant>

#include "service/trace/trace_reader.h"

namespace laneway::simulator {
namespace {

namespace trace = wire::trace;

struct Seen {
  lanes::JobOffered offer;
  TimePoint offered;
  Bytes ephemeral;
  lanes::IterationSum all = {};  // since then
  lanes::IterationSum probes = {};
  lanes::IterationSum before = {};  // … and what it had done, if the record began later
};

// What the records say of jobs.
class Reader {
 public:
  void on(TimePoint now, const trace::Entry& entry) {
    if (const auto* heard = std::get_if<trace::Heard>(&entry)) {
      std::visit([&](const auto& event) { hear(now, event); }, heard->event);
    } else if (const auto* decided = std::get_if<trace::Decided>(&entry)) {
      const auto* grant = std::get_if<lanes::GrantTurn>(&decided->action);
      if (grant != nullptr) turns_[grant->turn.id] = grant->turn.job;
    } else if (const auto* lost = std::get_if<trace::Lost>(&entry)) {
      lost_ += lost->records;
    }
  }
  RecordJobs jobs(bool estimates) const;

 private:
  void hear(TimePoint now, const lanes::JobOffered& offer) { offered(now, offer); }
  void hear(TimePoint now, const lanes::WorkerReported& reported) {
    for (const lanes::ReportedJob& job : reported.report.jobs) {
      const bool is_new = offered(now, job.offer);
      count(seen_[numbers_[job.offer.job]], {job.iterations, job.busy}, is_new);
      if (job.turn.valid()) turns_[job.turn] = job.offer.job;
    }
  }
  void hear(TimePoint /*now*/, const lanes::TurnEnded& ended) {
    const auto turn = turns_.find(ended.turn);
    const auto found = turn == turns_.end() ? numbers_.end() : numbers_.find(turn->second);
    if (found == numbers_.end()) return;
    Seen& job = seen_[found->second];
    add(job.all, {ended.iterations, ended.busy});
    add(job.probes, ended.probes);
    if (ended.ephemeral > Bytes()) job.ephemeral = ended.ephemeral;
    turns_.erase(turn);
  }
  void hear(TimePoint /*now*/, const lanes::NeedChanged& changed) {
    const auto found = numbers_.find(changed.job);
    if (found != numbers_.end()) seen_[found->second].ephemeral = changed.ephemeral;
  }
  template <class Event>
  void hear(TimePoint /*now*/, const Event& /*event*/) {}

  // The first offer counts: a new core hears of the job again. Returns whether it is that one.
  bool offered(TimePoint now, const lanes::JobOffered& offer) {
    if (!numbers_.emplace(offer.job, seen_.size()).second) return false;
    seen_.push_back({.offer = offer, .offered = now, .ephemeral = offer.ephemeral});
    return true;
  }
  // What a worker reports has turns whose end no core heard of.
  static void count(Seen& job, const lanes::IterationSum& reported, bool is_new) {
    if (is_new) job.before = reported;
    if (reported.count <= job.before.count + job.all.count) return;
    job.all = {reported.count - job.before.count, reported.busy - job.before.busy};
  }
  static void add(lanes::IterationSum& sum, const lanes::IterationSum& more) {
    sum.count += more.count;
    sum.busy += more.busy;
  }

  std::vector<Seen> seen_;
  std::map<JobId, size_t> numbers_;
  std::map<TurnId, JobId> turns_;
  uint64_t lost_ = 0;
};

// A field of a CSV file.
std::string plain(std::string name) {
  const auto is_special = [](char c) { return c == ',' || c == '"' || (c >= 0 && c < ' '); };
  std::replace_if(name.begin(), name.end(), is_special, '_');
  return name;
}

Duration mean(const lanes::IterationSum& sum) {
  return Duration(std::max<int64_t>(sum.busy.ns() / static_cast<int64_t>(sum.count), 1));
}

SimJob job_of(const Seen& seen, bool estimates) {
  SimJob job;
  job.options = seen.offer.options;
  job.kind = plain(job.options.name);
  job.options.name = "job " + std::to_string(seen.offer.job.value());
  if (!job.kind.empty()) job.options.name += " " + job.kind;
  job.submit = seen.offered;
  job.iterations = seen.all.count;
  const lanes::IterationSum others = {seen.all.count - seen.probes.count,
                                      seen.all.busy - seen.probes.busy};
  job.iteration = mean(seen.all.count > seen.probes.count ? others : seen.all);
  job.persistent = seen.offer.persistent;
  job.ephemeral = seen.ephemeral;
  job.context_key = seen.offer.context_key;
  if (estimates) job.estimate = job.iteration;
  return job;
}

RecordJobs Reader::jobs(bool estimates) const {
  RecordJobs found{.jobs = {}, .idle = 0, .lost = lost_};
  for (const Seen& seen : seen_) {
    if (seen.all.count == 0) {
      ++found.idle;
    } else {
      found.jobs.push_back(job_of(seen, estimates));
    }
  }
  return found;
}

}  // namespace

bool is_record(const std::string& path) {
  std::array<char, sizeof(service::TraceHeader::magic)> magic{};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic.data(), magic.size()) &&
         std::memcmp(magic.data(), service::TraceHeader().magic, magic.size()) == 0;
}

Result<RecordJobs> jobs_of_record(const std::string& path, bool estimates) {
  auto opened = service::TraceReader::open(path);
  if (!opened) return opened.error();
  Reader reader;
  while (true) {
    const auto record = opened.value().next();
    if (!record) return record.error();
    if (!record.value()) return reader.jobs(estimates);
    reader.on(TimePoint(record.value()->time_ns), record.value()->entry);
  }
}

}  // namespace laneway::simulator

#include "simulator/job_trace.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/limits.h"

namespace laneway::simulator {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMegabyte = 1 << 20;

// Reads the fields of one row and keeps the first error.
class Row {
 public:
  Row(const Table& table, size_t row) : table_(table), row_(row) {}

  int64_t number(std::string_view column, int64_t unit, int64_t least,
                 std::optional<int64_t> fallback = {}) {
    return taken(table_.number(row_, column, unit, least, fallback));
  }
  double real(std::string_view column, double fallback) {
    return taken(table_.real(row_, column, fallback));
  }
  std::string text(std::string_view column) const {
    return table_.has(column) ? table_.text(row_, column) : std::string();
  }
  JobClass job_class() {
    const std::string name = text("job_class");
    if (name.empty()) return JobClass::training;
    for (const JobClass one : {JobClass::training, JobClass::inference, JobClass::best_effort}) {
      if (name == job_class_name(one)) return one;
    }
    fail(table_.wrong(row_, "job_class",
                      "'" + name + "' is none of training, inference, best_effort"));
    return JobClass::training;
  }
  int32_t priority() {
    const int64_t given = number("priority", 1, -limits::kMaxPriority, 0);
    if (given <= limits::kMaxPriority) return static_cast<int32_t>(given);
    fail(table_.wrong(row_, "priority",
                      "priorities go up to " + std::to_string(limits::kMaxPriority)));
    return 0;
  }
  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }
  const Status& status() const { return status_; }

 private:
  template <class T>
  T taken(const Result<T>& result) {
    if (result) return result.value();
    fail(result.error());
    return T();
  }

  const Table& table_;
  size_t row_;
  Status status_;
};

Result<SimJob> job_of(const Table& table, size_t number, Estimates estimates) {
  Row row(table, number);
  SimJob job;
  job.options.name = row.text("job_id");
  if (job.options.name.empty()) job.options.name = "row" + std::to_string(number);
  job.submit = TimePoint(row.number("submit_time_s", kSecond, 0));
  job.iterations = static_cast<uint64_t>(row.number("iterations", 1, 1));
  job.iteration = Duration(row.number("iteration_ms", kMillisecond, 1));
  job.persistent = Bytes(row.number("persistent_mb", kMegabyte, 0, kMegabyte));
  job.ephemeral = Bytes(row.number("ephemeral_mb", kMegabyte, 0, kMegabyte));
  job.gap = Duration(row.number("host_gap_ms", kMillisecond, 0, 0));
  if (estimates == Estimates::trace) {
    job.estimate = Duration(row.number("estimate_ms", kMillisecond, 0, job.iteration.ns()));
  }
  job.options.total_iterations = job.iterations;
  job.options.priority = row.priority();
  job.options.weight = row.real("weight", 1);
  job.options.deadline = Duration(row.number("deadline_s", kSecond, 0, 0));
  job.options.job_class = row.job_class();
  if (!row.status()) return row.status().error();
  if (job.iterations > static_cast<uint64_t>(INT64_MAX / 4 / job.iteration.ns())) {
    return table.wrong(number, "iterations", "the job takes longer than 73 years");
  }
  if (const Status status = check_job_options(job.options); !status) {
    return table.wrong(number, "job_id", status.error().message);
  }
  return job;
}

}  // namespace

Result<std::vector<SimJob>> jobs_of(const Table& table, Estimates estimates) {
  const Status status = table.require({"submit_time_s", "iterations", "iteration_ms"});
  if (!status) return status.error();
  std::vector<SimJob> jobs;
  for (size_t row = 0; row < table.rows(); ++row) {
    auto job = job_of(table, row, estimates);
    if (!job) return job.error();
    jobs.push_back(std::move(job).value());
  }
  if (jobs.empty()) {
    return Error{ErrorCode::invalid_argument, table.name() + " has no job: no line but its header"};
  }
  return jobs;
}

Result<std::vector<SimJob>> read_jobs(const std::string& path, Estimates estimates) {
  auto table = Table::read(path);
  if (!table) return table.error();
  return jobs_of(table.value(), estimates);
}

}  // namespace laneway::simulator

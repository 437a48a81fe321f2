#include "simulator/job_trace.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "simulator/record_jobs.h"
#include "simulator/row.h"

namespace laneway::simulator {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMegabyte = 1 << 20;
// Of the traces that have none.
constexpr Duration kIteration = milliseconds(100);

struct FormatRow {
  Format format;
  const char* name;
  std::vector<std::string> columns;  // that it must have
};

const std::array<FormatRow, 3>& formats() {
  static const std::array<FormatRow, 3> kFormats = {
      {{Format::laneway, "laneway", {"submit_time_s", "iterations", "iteration_ms"}},
       {Format::philly, "philly", {"timestamp", "duration", "num_gpus"}},
       {Format::tiresias, "tiresias", {"submit_time", "duration", "num_gpu", "iterations"}}}};
  return kFormats;
}

void read_laneway(Row& row, Estimates estimates, SimJob& job) {
  job.submit = TimePoint(row.number("submit_time_s", kSecond, 0));
  job.iterations = static_cast<uint64_t>(row.number("iterations", 1, 1));
  job.iteration = Duration(row.number("iteration_ms", kMillisecond, 1));
  job.persistent = Bytes(row.number("persistent_mb", kMegabyte, 0, 0));
  job.ephemeral = Bytes(row.number("ephemeral_mb", kMegabyte, 0, 0));
  job.gap = Duration(row.number("host_gap_ms", kMillisecond, 0, 0));
  if (estimates == Estimates::trace) {
    job.estimate = Duration(row.number("estimate_ms", kMillisecond, 0, job.iteration.ns()));
  }
  job.kind = row.text("model_name");
  job.options.priority = row.priority();
  job.options.weight = row.real("weight", 1);
  job.options.deadline = Duration(row.number("deadline_s", kSecond, 0, 0));
  job.options.job_class = row.job_class();
  if (row.status() &&
      job.iterations > static_cast<uint64_t>(kLongestJob.ns() / job.iteration.ns())) {
    row.fail("iterations", "the job takes longer than 73 years");
  }
}

// A job of which the trace says how long it is, and perhaps of how many iterations.
void read_length(Row& row, const char* gpus, Estimates estimates, std::optional<uint64_t> asked,
                 SimJob& job) {
  const Duration length(row.number("duration", kSecond, 0));
  if (row.number(gpus, 1, 1) != 1) {
    row.fail(gpus,
             "one device has one GPU: leave such jobs out, --where " + std::string(gpus) + "=1");
  }
  if (length > kLongestJob) row.fail("duration", "the job takes longer than 73 years");
  if (!row.status()) return;
  job.iterations = 1;
  job.iteration = Duration(1);
  if (length > Duration()) {
    const auto about = static_cast<uint64_t>(length.ns() / kIteration.ns());
    job.iterations = exact_iterations(length, std::max<uint64_t>(asked.value_or(about), 1));
    job.iteration = Duration(length.ns() / static_cast<int64_t>(job.iterations));
  }
  if (estimates == Estimates::trace) job.estimate = job.iteration;
}

Result<SimJob> job_of(const Table& table, size_t number, Format format, Estimates estimates) {
  Row row(table, number);
  SimJob job;
  job.options.name = row.text("job_id");
  if (job.options.name.empty()) job.options.name = "row" + std::to_string(number);
  switch (format) {
    case Format::laneway: read_laneway(row, estimates, job); break;
    case Format::philly:
      job.submit = TimePoint(row.wall_time("timestamp") * kSecond);
      read_length(row, "num_gpus", estimates, {}, job);
      break;
    case Format::tiresias:
      job.submit = TimePoint(row.number("submit_time", kSecond, 0));
      read_length(row, "num_gpu", estimates, static_cast<uint64_t>(row.number("iterations", 1, 1)),
                  job);
      break;
    case Format::record: break;  // has no rows
  }
  job.options.total_iterations = job.iterations;
  if (row.status()) {
    if (const Status status = check_job_options(job.options); !status) {
      row.fail(formats()[static_cast<size_t>(format)].columns[1], status.error().message);
    }
  }
  if (!row.status()) return row.status().error();
  return job;
}

Result<Format> format_of(const Table& table, std::optional<Format> given) {
  for (const FormatRow& one : formats()) {
    const Status status = table.require(one.columns);
    if (given == one.format && !status) return status.error();
    if (given ? given == one.format : status.ok()) return one.format;
  }
  std::string known;
  for (const FormatRow& one : formats()) {
    known += std::string(known.empty() ? "" : "; ") + one.name + " has";
    for (const std::string& column : one.columns) known += " " + column;
  }
  return Error{ErrorCode::invalid_argument,
               table.name() + " is of no format that is known by its columns: " + known};
}

bool is_wanted(const Table& table, size_t row, const TraceChoice& choice) {
  return std::all_of(choice.where.begin(), choice.where.end(), [&](const auto& wanted) {
    return table.text(row, wanted.first) == wanted.second;
  });
}

// By submission time, a range of them, from time 0 on.
Status take_rows(const std::string& name, const TraceChoice& choice, std::vector<SimJob>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const SimJob& a, const SimJob& b) { return a.submit < b.submit; });
  const size_t last = std::min(choice.last.value_or(jobs.size()), jobs.size());
  if (choice.first >= last) {
    return Error{ErrorCode::invalid_argument,
                 name + " has " + std::to_string(jobs.size()) +
                     " jobs that are wanted, and none of the rows asked for is among them"};
  }
  jobs = {jobs.begin() + static_cast<std::ptrdiff_t>(choice.first),
          jobs.begin() + static_cast<std::ptrdiff_t>(last)};
  const Duration start = jobs.front().submit - TimePoint();
  for (SimJob& job : jobs) job.submit = TimePoint() + (job.submit - (TimePoint() + start));
  return {};
}

Result<JobTrace> trace_of_record(const std::string& path, const TraceChoice& choice) {
  if (!choice.where.empty()) {
    return Error{ErrorCode::invalid_argument, "--where " + choice.where[0].first + "=" +
                                                  choice.where[0].second + ": " + path +
                                                  " is a record of a service, which has no "
                                                  "columns: leave it out"};
  }
  auto read = jobs_of_record(path, choice.estimates == Estimates::trace);
  if (!read) return read.error();
  JobTrace trace{.format = Format::record,
                 .has_memory = true,
                 .jobs = std::move(read.value().jobs),
                 .idle = read.value().idle,
                 .lost = read.value().lost};
  if (Status status = take_rows(path, choice, trace.jobs); !status) return status.error();
  return trace;
}

}  // namespace

std::optional<Format> format_named(std::string_view name) {
  for (const FormatRow& one : formats()) {
    if (name == one.name) return one.format;
  }
  if (name == "record") return Format::record;
  return {};
}

uint64_t exact_iterations(Duration length, uint64_t asked) {
  const auto ns = static_cast<uint64_t>(length.ns());
  for (uint64_t count = asked; count <= std::min(2 * asked, ns); ++count) {
    if (ns % count == 0) return count;
  }
  return ns / std::gcd(ns, uint64_t{kMillisecond});
}

Result<JobTrace> trace_of(const Table& table, const TraceChoice& choice) {
  const auto format = format_of(table, choice.format);
  if (!format) return format.error();
  std::vector<std::string> asked;
  for (const auto& [column, value] : choice.where) asked.push_back(column);
  if (const Status status = table.require(asked); !status) return status.error();
  JobTrace trace{.format = format.value(),
                 .has_memory = table.has("persistent_mb") && table.has("ephemeral_mb"),
                 .jobs = {}};
  for (size_t row = 0; row < table.rows(); ++row) {
    if (!is_wanted(table, row, choice)) continue;
    auto job = job_of(table, row, trace.format, choice.estimates);
    if (!job) return job.error();
    trace.jobs.push_back(std::move(job).value());
  }
  if (Status status = take_rows(table.name(), choice, trace.jobs); !status) return status.error();
  for (const SimJob& job : trace.jobs) {
    trace.without_length += job.iterations == 1 && job.iteration == Duration(1);
  }
  return trace;
}

Result<JobTrace> read_trace(const std::string& path, const TraceChoice& choice) {
  if (choice.format == Format::record || (!choice.format && is_record(path))) {
    return trace_of_record(path, choice);
  }
  auto table = Table::read(path);
  if (!table) return table.error();
  return trace_of(table.value(), choice);
}

}  // namespace laneway::simulator

// Job traces: files of jobs, one a line, as the simulator's jobs. Formats (CSV with a header, by
// which they are recognised):
//
// `laneway`: job_id, model_name, batch_size, submit_time_s, iterations, iteration_ms,
// persistent_mb, ephemeral_mb (MB = 2^20 bytes), duration_s. Needed are submit_time_s, iterations
// and iteration_ms, and the sizes where memory matters; a length is iterations x iteration_ms, and
// duration_s, which says it again, is not read. More columns, each of which may be left out:
// model_name (a job's kind), estimate_ms (of an iteration, as its client tells it), priority,
// weight, deadline_s, job_class, host_gap_ms (from a result to the next submission). Fields of
// these may be empty.
//
// `philly`: timestamp (wall time), duration (s), num_gpus; iterations are taken to be of about 0.1
// s. `tiresias`: submit_time (s), duration (s), num_gpu, iterations. Both know nothing of memory,
// and only jobs of one GPU can be simulated. Their lengths are kept to the nanosecond: there are as
// many iterations as said, or so many more that they divide it.
//
// `record` is no CSV file: what a service wrote (record_jobs.h), known by its first bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "simulator/sim_job.h"
#include "simulator/table.h"

namespace laneway::simulator {

enum class Format : uint8_t { laneway, philly, tiresias, record };

enum class Estimates : uint8_t {
  trace,  // clients tell what an iteration takes: estimate_ms, else what the trace has
  none,   // nobody knows before it was measured; how many iterations there are is told
};

// Which jobs of a file, in this order: those whose columns have the values; then, by submission
// time (equal times in the file's order), those from the first one on up to the last one,
// exclusive. Time starts with the first of them.
struct TraceChoice {
  std::optional<Format> format = {};  // none: by the header
  std::vector<std::pair<std::string, std::string>> where = {};
  size_t first = 0;
  std::optional<size_t> last = {};
  Estimates estimates = Estimates::trace;
};

struct JobTrace {
  Format format = Format::laneway;
  bool has_memory = false;  // it says what jobs hold
  // Jobs without a length, which are one iteration of a nanosecond: they wait as others do.
  size_t without_length = 0;
  std::vector<SimJob> jobs;  // by submission time
  // Of a record: jobs that ran nothing, and are left out; and what the service had no room for.
  uint64_t idle = 0;
  uint64_t lost = 0;
};

std::optional<Format> format_named(std::string_view name);

// Error invalid_argument names file, line and column.
Result<JobTrace> read_trace(const std::string& path, const TraceChoice& choice);
Result<JobTrace> trace_of(const Table& table, const TraceChoice& choice);

// How many equal iterations of whole nanoseconds a job of this length has: about as many as asked
// for, and at least so many. Requires: both are above 0.
uint64_t exact_iterations(Duration length, uint64_t asked);

}  // namespace laneway::simulator

// Job traces: files of jobs, one a line, as the simulator's jobs.
//
// Format `laneway` (CSV with a header): job_id, model_name, batch_size, submit_time_s, iterations,
// iteration_ms, persistent_mb, ephemeral_mb (MB = 2^20 bytes), duration_s. Needed are
// submit_time_s, iterations and iteration_ms; a length is iterations x iteration_ms, and
// duration_s, which says it again, is not read. More columns, each of which may be left out:
// estimate_ms (of an iteration, as its client tells it), priority, weight, deadline_s, job_class,
// host_gap_ms (from a result to the next submission). Fields of these may be empty.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "simulator/sim_job.h"
#include "simulator/table.h"

namespace laneway::simulator {

enum class Estimates : uint8_t {
  trace,  // clients tell what an iteration takes: estimate_ms, else iteration_ms
  none,   // nobody knows before it was measured; how many iterations there are is told
};

// Jobs in the file's order. Error invalid_argument names file, line and column.
Result<std::vector<SimJob>> read_jobs(const std::string& path, Estimates estimates);
Result<std::vector<SimJob>> jobs_of(const Table& table, Estimates estimates);

}  // namespace laneway::simulator

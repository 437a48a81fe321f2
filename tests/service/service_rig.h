// ServiceRig: an embedded service with a small pool, and TinyJob, a client of one job over
// tests/service/tiny_graphs.h that counts along and so knows what the state must be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "service/embedded/embedded.h"

namespace laneway::testing {

// No image leaves its pool: who finds no room waits.
std::unique_ptr<service::EmbeddedService> open_service(uint32_t lanes, Bytes pool = mib(16),
                                                       const std::string& policy = "fifo");

// An iteration that was submitted; holds the input's value.
using Pending = std::shared_ptr<service::Work>;

// One thread at a time.
class TinyJob {
 public:
  // The job must be accepted. Its state begins at zero.
  TinyJob(service::EmbeddedService& service, std::string name, int64_t count = 16,
          int32_t priority = 0);

  // Runs on this thread when the lane is idle, queues and waits otherwise; checks the output.
  Status run(float value);
  Result<Pending> submit(float value);
  // Waits; when it completed, checks that its output is `expected`.
  Status wait(const Pending& pending, float expected);
  // Ordered after what was submitted; the state's figure, all of which are equal (else NaN).
  Result<float> read();
  void close() { service_.worker().close_job(job_); }

  // What the state is after all that was run or submitted.
  float expected() const { return expected_; }
  int64_t count() const { return count_; }
  const service::JobHandle& handle() const { return job_; }
  service::Worker& worker() { return service_.worker(); }
  // The job's first graph.
  service::GraphHandle graph() { return worker().find_graph(*job_, 0).value(); }

 private:
  lanes::InputView input(float value);

  service::EmbeddedService& service_;
  const int64_t count_;
  service::JobHandle job_;
  std::vector<float> input_;
  float expected_ = 0;
};

// Holds a job from the inside until released, so that what is submitted meanwhile queues up.
class Blocker {
 public:
  explicit Blocker(TinyJob& job);
  // Releases, if that was not done.
  ~Blocker();
  void release();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace laneway::testing

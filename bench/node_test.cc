// laneway-node-test: what the test of the control word costs a node.
//
//     laneway-node-test WAY CORE
//
// An iteration of 10,000 nodes that do nothing: WAY `tested` runs it with the executor, `bare` by a
// loop of the same calls without the test. CORE as for laneway-ring-roundtrip. Trials as in
// bench/trial_loop.h.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/trial_loop.h"
#include "lanes/run/executor.h"

namespace {

using namespace laneway;  // NOLINT: the vocabulary of this file

constexpr size_t kNodes = 10'000;

class NoHooks final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

class NothingRunner final : public lanes::GraphRunner {
 public:
  size_t node_count() const override { return kNodes; }
  size_t first_write() const override { return kNodes; }
  Status begin(std::span<const lanes::InputView>) override { return {}; }
  lanes::NodeOutcome run_node(size_t index) override {
    last_ = index;
    return lanes::NodeOutcome::done;
  }
  Status finish(std::span<const lanes::OutputView>) override { return {}; }
  void abandon() override {}
  const Error& last_error() const override { return error_; }

 private:
  volatile size_t last_ = 0;
  Error error_;
};

// As the executor has it, so that neither knows the other's type.
[[gnu::noinline]] bool run_bare(lanes::GraphRunner& runner) {
  for (size_t node = 0; node < kNodes; ++node) {
    if (runner.run_node(node) != lanes::NodeOutcome::done) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc == 3 ? argv[1] : "";
  if (way != "tested" && way != "bare") {
    std::fprintf(stderr, "usage: laneway-node-test tested|bare CORE (-1: anywhere)\n");
    return 2;
  }
  bench::stay_on_core(static_cast<int>(std::strtol(argv[2], nullptr, 10)));
  NothingRunner runner;
  NoHooks hooks;
  lanes::ControlWord word;
  lanes::Executor executor(runner, word, hooks);
  return bench::serve_trials([&] {
    const int64_t start = bench::now_ns();
    const bool done = way == "bare"
                          ? run_bare(runner)
                          : executor.run({}, {}).outcome == lanes::IterationOutcome::completed;
    const int64_t end = bench::now_ns();
    if (!done) std::exit(1);
    return end - start;
  });
}

// Shows that the executor runs every node once and in order, that whatever stops an iteration
// before its commit phase leaves no trace (run again, it gives what an undisturbed run gives), that
// nothing stops it afterwards, and that what went wrong inside the commit phase is reported as
// such. Faults are injected at every node; the control word is also set from another thread while
// nodes run.
#include "lanes/run/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"
#include "tests/support/synthetic_runner.h"

namespace laneway::lanes {
namespace {

using ::testing::HasSubstr;
using testing::SyntheticRunner;
constexpr size_t kNodes = 12;
constexpr size_t kFirstWrite = 8;

// Counts what it is asked, waits for the word, answers the commit phase as it is told.
class TestHooks final : public ExecutorHooks {
 public:
  explicit TestHooks(ControlWord& word) : word_(word) {}

  void pause(size_t node) override {
    pauses.push_back(node);
    if (serve) {
      word_.clear(control::kPause);
      return;
    }
    waiting.store(true);
    while (word_.bits() == control::kPause) std::this_thread::yield();
  }
  CommitDecision enter_commit_phase(size_t node) override {
    commits.push_back(node);
    return decision;
  }

  bool serve = true;  // clears at once what it is asked to wait for
  CommitDecision decision = CommitDecision::go;
  std::vector<size_t> pauses;
  std::vector<size_t> commits;
  std::atomic<bool> waiting{false};

 private:
  ControlWord& word_;
};

struct Bench {
  explicit Bench(size_t nodes = kNodes, size_t first_write = kFirstWrite)
      : runner(nodes, first_write), executor(runner, word, hooks) {}

  IterationReport run() {
    InputView input;
    input.integer = 5;
    const OutputView view{&output, sizeof output};
    return executor.run(std::span(&input, 1), std::span(&view, 1));
  }

  ControlWord word;
  TestHooks hooks{word};
  SyntheticRunner runner;
  Executor executor;
  uint64_t output = 0;
};

// That nothing of the iterations so far can be seen: one more gives what a first one gives.
void expect_no_trace(Bench& bench) {
  Bench fresh;
  EXPECT_EQ(bench.runner.persistent(), fresh.runner.persistent());
  EXPECT_EQ(bench.runner.random_state(), fresh.runner.random_state());
  EXPECT_FALSE(bench.runner.alive());
  ASSERT_EQ(fresh.run().outcome, IterationOutcome::completed);
  ASSERT_EQ(bench.run().outcome, IterationOutcome::completed);
  EXPECT_EQ(bench.runner.persistent(), fresh.runner.persistent());
  EXPECT_EQ(bench.output, fresh.output);
  EXPECT_EQ(bench.runner.breach(), "");
}

TEST(Executor, RunsEveryNodeOnceInOrder) {
  Bench bench;
  const IterationReport report = bench.run();
  EXPECT_EQ(report.outcome, IterationOutcome::completed);
  EXPECT_EQ(report.node, kNodes);
  ASSERT_EQ(bench.runner.trail().size(), kNodes);
  for (size_t i = 0; i < kNodes; ++i) EXPECT_EQ(bench.runner.trail()[i], i);
  EXPECT_EQ(bench.hooks.commits, std::vector<size_t>{kFirstWrite});
  EXPECT_TRUE(bench.hooks.pauses.empty());
  EXPECT_EQ(bench.runner.finishes(), 1);
  EXPECT_EQ(bench.runner.abandons(), 0);
  EXPECT_EQ(bench.runner.breach(), "");
}

TEST(Executor, GraphWithoutWritesHasNoCommitPhase) {
  for (const size_t nodes : {size_t{0}, kNodes}) {
    Bench bench(nodes, nodes);
    EXPECT_EQ(bench.run().outcome, IterationOutcome::completed);
    EXPECT_TRUE(bench.hooks.commits.empty());
    EXPECT_EQ(bench.runner.breach(), "");
  }
}

TEST(Executor, GraphThatWritesFromItsFirstNode) {
  Bench bench(3, 0);
  EXPECT_EQ(bench.run().outcome, IterationOutcome::completed);
  EXPECT_EQ(bench.hooks.commits, std::vector<size_t>{0});
}

// At the first node that writes, too: it did not.
TEST(Executor, OutOfLaneUpToTheFirstWriteLeavesNoTrace) {
  for (size_t node = 0; node <= kFirstWrite; ++node) {
    Bench bench;
    bench.runner.inject(node, NodeOutcome::out_of_lane);
    const IterationReport report = bench.run();
    EXPECT_EQ(report.outcome, IterationOutcome::abandoned_out_of_lane) << node;
    EXPECT_EQ(report.node, node);
    EXPECT_EQ(bench.runner.abandons(), 1);
    expect_no_trace(bench);
  }
}

TEST(Executor, OutOfLaneInsideTheCommitPhaseIsReportedAsPartlyWritten) {
  for (size_t node = kFirstWrite + 1; node < kNodes; ++node) {
    Bench bench;
    bench.runner.inject(node, NodeOutcome::out_of_lane);
    const IterationReport report = bench.run();
    EXPECT_EQ(report.outcome, IterationOutcome::failed_in_commit);
    EXPECT_EQ(report.node, node);
    EXPECT_EQ(report.error.code, ErrorCode::out_of_memory);
    EXPECT_THAT(report.error.message, HasSubstr("node " + std::to_string(node)));
    EXPECT_FALSE(bench.runner.alive());
    EXPECT_EQ(bench.runner.breach(), "");
  }
}

TEST(Executor, FailureIsCleanBeforeTheCommitPhaseOnly) {
  for (size_t node = 0; node < kNodes; ++node) {
    Bench bench;
    bench.runner.inject(node, NodeOutcome::failed);
    const IterationReport report = bench.run();
    EXPECT_EQ(report.outcome, node < kFirstWrite ? IterationOutcome::failed_clean
                                                 : IterationOutcome::failed_in_commit);
    EXPECT_EQ(report.node, node);
    EXPECT_EQ(report.error.message, "node " + std::to_string(node) + " was told to fail");
    if (node < kFirstWrite) {
      expect_no_trace(bench);
    } else {
      EXPECT_FALSE(bench.runner.alive());
    }
  }
}

TEST(Executor, RefusedInputsAreAnError) {
  Bench bench;
  bench.runner.refuse_begin();
  const IterationReport report = bench.run();
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_EQ(report.error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(bench.runner.abandons(), 0);
  EXPECT_EQ(bench.runner.breach(), "");
}

TEST(Executor, OutputsThatCannotBeDelivered) {
  Bench training;
  training.runner.fail_finish();
  EXPECT_EQ(training.run().outcome, IterationOutcome::failed_in_commit);
  Bench inference(kNodes, kNodes);
  inference.runner.fail_finish();
  const IterationReport report = inference.run();
  EXPECT_EQ(report.outcome, IterationOutcome::failed_clean);
  EXPECT_EQ(report.error.message, "output 0 has the wrong size");
}

// Set while node n runs, a request stops the iteration before node n + 1, unless that is in the
// commit phase.
TEST(Executor, RequestsToStopHaveEffectBeforeTheCommitPhaseOnly) {
  for (const uint32_t request : {control::kAbandon, control::kCancel}) {
    for (size_t node = 0; node < kNodes; ++node) {
      Bench bench;
      bool asked = false;
      bench.runner.at_node(node, [&] {
        if (!asked) bench.word.set(request);
        asked = true;
      });
      const IterationReport report = bench.run();
      if (node >= kFirstWrite) {
        EXPECT_EQ(report.outcome, IterationOutcome::completed) << node;
        continue;
      }
      EXPECT_EQ(report.outcome, request == control::kCancel
                                    ? IterationOutcome::cancelled
                                    : IterationOutcome::abandoned_by_request);
      EXPECT_EQ(report.node, node + 1);
      bench.word.clear(control::kCancel);
      expect_no_trace(bench);
    }
  }
}

TEST(Executor, AbandonIsForOneIterationAndCancelStays) {
  Bench bench;
  bench.word.set(control::kAbandon);
  EXPECT_EQ(bench.run().outcome, IterationOutcome::abandoned_by_request);
  EXPECT_EQ(bench.run().outcome, IterationOutcome::completed);
  bench.word.set(control::kCancel | control::kAbandon);
  EXPECT_EQ(bench.run().outcome, IterationOutcome::cancelled);
  EXPECT_EQ(bench.run().outcome, IterationOutcome::cancelled);
}

TEST(Executor, TheGateDecidesAtTheEntryOfTheCommitPhase) {
  const std::pair<CommitDecision, IterationOutcome> cases[] = {
      {CommitDecision::grow, IterationOutcome::abandoned_out_of_lane},
      {CommitDecision::abandon, IterationOutcome::abandoned_by_request},
      {CommitDecision::cancel, IterationOutcome::cancelled},
  };
  for (const auto& [decision, outcome] : cases) {
    Bench bench;
    bench.hooks.decision = decision;
    const IterationReport report = bench.run();
    EXPECT_EQ(report.outcome, outcome);
    EXPECT_EQ(report.node, kFirstWrite);
    bench.hooks.decision = CommitDecision::go;
    expect_no_trace(bench);
  }
}

TEST(Executor, PausesAtTheNodeWhereItIsAskedToAndNeverInTheCommitPhase) {
  for (size_t node = 0; node + 1 < kNodes; ++node) {
    Bench bench;
    bench.runner.at_node(node, [&] { bench.word.set(control::kPause); });
    EXPECT_EQ(bench.run().outcome, IterationOutcome::completed);
    const std::vector<size_t> before_commit(1, node + 1);
    EXPECT_EQ(bench.hooks.pauses, node < kFirstWrite ? before_commit : std::vector<size_t>());
  }
}

// Pauses at random nodes from another thread, which clears them when it saw the executor wait.
TEST(Executor, PausesFromAnotherThreadChangeNothing) {
  Random random(testing::seed_from_environment(41));
  Bench fresh;
  ASSERT_EQ(fresh.run().outcome, IterationOutcome::completed);
  for (int round = 0; round < 50; ++round) {
    Bench bench;
    bench.hooks.serve = false;
    bench.runner.at_node(random.below(kFirstWrite), [&] { bench.word.set(control::kPause); });
    std::thread other([&] {
      while (!bench.hooks.waiting.load()) std::this_thread::yield();
      bench.word.clear(control::kPause);
    });
    EXPECT_EQ(bench.run().outcome, IterationOutcome::completed);
    other.join();
    EXPECT_EQ(bench.runner.persistent(), fresh.runner.persistent());
  }
}

TEST(Executor, APausedIterationCanBeAbandonedBeforeItsCommitPhase) {
  Bench bench;
  bench.hooks.serve = false;
  bool paused = false;
  bench.runner.at_node(3, [&] {
    if (!paused) bench.word.set(control::kPause);
    paused = true;
  });
  std::thread other([&] {
    while (!bench.hooks.waiting.load()) std::this_thread::yield();
    bench.word.set(control::kAbandon);
  });
  const IterationReport report = bench.run();
  other.join();
  EXPECT_EQ(report.outcome, IterationOutcome::abandoned_by_request);
  EXPECT_EQ(report.node, 4u);
  bench.word.clear(control::kPause);
  expect_no_trace(bench);
}

// Another thread asks for abandonment all the time: every iteration completes or leaves no trace,
// so after n completed ones the state is that of n undisturbed ones.
TEST(Executor, StormOfAbandonsFromAnotherThread) {
  constexpr int kIterations = 200;
  Bench calm(200, 150);
  for (int i = 0; i < kIterations; ++i) calm.run();
  Bench bench(200, 150);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load()) {
      bench.word.set(control::kAbandon);
      for (int i = 0; i < 20 && !done.load(); ++i) std::this_thread::yield();
    }
  });
  int completed = 0;
  while (completed < kIterations) {
    const IterationOutcome outcome = bench.run().outcome;
    ASSERT_TRUE(outcome == IterationOutcome::completed ||
                outcome == IterationOutcome::abandoned_by_request);
    completed += outcome == IterationOutcome::completed;
  }
  done.store(true);
  other.join();
  EXPECT_EQ(bench.runner.persistent(), calm.runner.persistent());
  EXPECT_EQ(bench.runner.random_state(), calm.runner.random_state());
  EXPECT_EQ(bench.runner.breach(), "");
}

}  // namespace
}  // namespace laneway::lanes

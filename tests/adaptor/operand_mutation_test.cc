// Shows that no call of a listed operator, however its operands, numbers and lists are broken,
// touches memory beyond its operands or stops the process: recorded calls of every operator
// (operand_calls.txt) are broken at random, loaded and run as a job's graph is, with a page that
// must not be touched behind every tensor. Each runs in a child process; one that dies is named
// with its call. Every listed operator must have a recorded call, and one that runs
// unbroken. LANEWAY_CALLS=TEXT selects operators, LANEWAY_CALL runs one given call.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adaptor/operators/operator_list.h"
#include "adaptor/operators/random_operators.h"
#include "base/random.h"
#include "tests/adaptor/call_mutator.h"
#include "tests/adaptor/call_rig.h"
#include "tests/adaptor/guarded_memory.h"
#include "tests/support/long_form.h"
#include "tests/support/seed.h"

namespace laneway::testing {
namespace {

constexpr size_t kTensorBudget = size_t{64} << 20;
constexpr size_t kAddressSpace = size_t{8} << 30;  // over what the parent has mapped
constexpr int kSecondsPerCall = 20;                // of the processor's time
constexpr size_t kLeastCalls = 1'000;
constexpr size_t kMostCalls = 16'384;

// Shared between the test and the child that runs the calls.
struct Progress {
  volatile uint64_t at;
  volatile uint64_t outcomes[4];
  volatile bool unbroken_done[kMostCalls];  // by recorded call
};

struct Ended {
  std::vector<std::string> dead;  // calls that stopped their process
  std::vector<std::string> slow;  // calls that were ended for their time
};

uint64_t seed_of(uint64_t seed, uint64_t index) { return Random(seed * 1'000'003 + index).next(); }

class Campaign {
 public:
  Campaign(std::vector<std::string> lines, uint64_t rounds, uint64_t seed)
      : lines_(std::move(lines)), rounds_(rounds), seed_(seed) {
    void* shared =
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    progress_ = static_cast<Progress*>(shared);
    std::memset(shared, 0, sizeof(Progress));
  }

  OperandCall call(uint64_t index) const {
    OperandCall made = parse_call(lines_[index % lines_.size()]);
    Random random(seed_of(seed_, index));
    if (index >= lines_.size()) mutate_call(made, random);
    return made;
  }

  // Runs all.
  Ended run() {
    Ended ended;
    const uint64_t count = calls();
    uint64_t next = 0;
    while (next < count) {
      const pid_t child = fork();
      if (child == 0) run_child(next, count);
      int status = 0;
      waitpid(child, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
      const uint64_t at = progress_->at;
      next = at + 1;
      // What takes long by its numbers alone ends at its time, and touches nothing.
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM) {
        ended.slow.push_back(call_text(call(at)));
        std::printf("slow: %s\n", ended.slow.back().c_str());
      } else {
        ended.dead.push_back((WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit") +
                             std::string(": ") + call_text(call(at)));
        std::printf("%s\n", ended.dead.back().c_str());
      }
      std::fflush(stdout);
    }
    return ended;
  }

  uint64_t calls() const { return lines_.size() * (rounds_ + 1); }

  const Progress& progress() const { return *progress_; }

 private:
  [[noreturn]] void run_child(uint64_t from, uint64_t to) {
    guard_torch_allocations(kTensorBudget);
    const rlimit space{kAddressSpace, kAddressSpace};
    setrlimit(RLIMIT_AS, &space);
    const rlimit core{0, 0};
    setrlimit(RLIMIT_CORE, &core);
    for (uint64_t index = from; index < to; ++index) {
      progress_->at = index;
      const itimerval limit{{0, 0}, {kSecondsPerCall, 0}};
      setitimer(ITIMER_VIRTUAL, &limit, nullptr);
      const CallReport report = run_call(call(index), seed_of(seed_, index));
      progress_->outcomes[static_cast<size_t>(report.outcome)] =
          progress_->outcomes[static_cast<size_t>(report.outcome)] + 1;
      if (index < lines_.size()) {
        progress_->unbroken_done[index] = report.outcome == CallOutcome::done;
      }
    }
    _exit(0);
  }

  std::vector<std::string> lines_;
  uint64_t rounds_;
  uint64_t seed_;
  Progress* progress_;
};

std::vector<std::string> lines_of(const char* path, const char* wanted = nullptr) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    if (wanted == nullptr || line.find(wanted) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

std::string operator_of(const std::string& line) { return line.substr(0, line.find(' ')); }

// Refused where nothing before them in the graph gave what they trust
// (adaptor/checks/paired_check).
constexpr std::string_view kNeedsAPartner[] = {
    "aten::_ctc_loss_backward", "aten::_ctc_loss_backward.Tensor", "aten::linalg_ldl_solve",
    "aten::mkldnn_rnn_layer_backward"};

TEST(OperandMutation, NoCallTouchesWhatIsNotItsOwn) {
  at::set_num_threads(1);
  const uint64_t seed = seed_from_environment(11);
  if (const char* one = std::getenv("LANEWAY_CALL")) {
    guard_torch_allocations(kTensorBudget);
    for (uint64_t i = 0; i < 20; ++i) {
      const CallReport report = run_call(parse_call(one), seed_of(seed, i));
      if (i == 0) std::printf("%d %s\n", static_cast<int>(report.outcome), report.message.c_str());
    }
    return;
  }
  const char* rounds = std::getenv("LANEWAY_ROUNDS");
  const uint64_t usual = long_form_asked_for() ? 500 : 10;
  const char* const wanted = std::getenv("LANEWAY_CALLS");
  const std::vector<std::string> lines = lines_of(LANEWAY_OPERAND_CALLS, wanted);
  ASSERT_GT(lines.size(), wanted == nullptr ? kLeastCalls : 0) << LANEWAY_OPERAND_CALLS;
  ASSERT_LE(lines.size(), kMostCalls);
  Campaign campaign(lines, rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : usual, seed);
  const Ended ended = campaign.run();
  const Progress& p = campaign.progress();
  std::printf("malformed %lu refused %lu failed %lu done %lu slow %zu\n", p.outcomes[0],
              p.outcomes[1], p.outcomes[2], p.outcomes[3], ended.slow.size());
  EXPECT_TRUE(ended.dead.empty()) << ended.dead.size() << " calls stopped the process";
  EXPECT_EQ(p.outcomes[0] + p.outcomes[1] + p.outcomes[2] + p.outcomes[3] + ended.slow.size() +
                ended.dead.size(),
            campaign.calls());
  EXPECT_LE(ended.slow.size(), campaign.calls() / 1'000) << "slow calls are skipped";
  const size_t ran =
      static_cast<size_t>(std::count(p.unbroken_done, p.unbroken_done + lines.size(), true));
  EXPECT_GE(ran * 100, lines.size() * 95) << ran << " of " << lines.size() << " calls ran unbroken";
  std::set<std::string> called, run;
  for (size_t i = 0; i < lines.size(); ++i) {
    called.insert(operator_of(lines[i]));
    if (p.unbroken_done[i]) run.insert(operator_of(lines[i]));
  }
  for (const std::string& name : called) {
    if (std::find(std::begin(kNeedsAPartner), std::end(kNeedsAPartner), name) !=
        std::end(kNeedsAPartner)) {
      EXPECT_FALSE(run.contains(name)) << name << " runs without its partner";
    } else {
      EXPECT_TRUE(run.contains(name)) << name << " has no recorded call that runs unbroken";
    }
  }
}

// Those that only another device has kernels for cannot be called here.
TEST(OperandMutation, EveryListedOperatorHasARecordedCall) {
  adaptor::register_random_operators();
  std::set<std::string, std::less<>> recorded;
  for (const std::string& line : lines_of(LANEWAY_OPERAND_CALLS)) {
    recorded.insert(operator_of(line));
  }
  for (const std::string_view name : adaptor::allowed_operators()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(adaptor::operator_name(name));
    ASSERT_TRUE(handle.has_value()) << name;
    const bool callable = handle->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                          handle->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect) ||
                          handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    EXPECT_EQ(recorded.contains(name), callable) << name;
    recorded.erase(std::string(name));
  }
  for (const std::string& name : recorded) ADD_FAILURE() << name << " is not on the list";
}

// Each was found by the test above, before there was a rule about it.
TEST(OperandMutation, RefusesWhatOnceReachedBeyondItsOperands) {
  at::set_num_threads(1);
  Campaign campaign(lines_of(LANEWAY_OPERAND_FAULTS), 0, 1);
  const Ended ended = campaign.run();
  EXPECT_TRUE(ended.dead.empty());
  EXPECT_TRUE(ended.slow.empty());
  EXPECT_GT(campaign.calls(), 100U) << LANEWAY_OPERAND_FAULTS;
  EXPECT_EQ(campaign.progress().outcomes[static_cast<size_t>(CallOutcome::done)], 0U);
  const CallReport report = run_call(
      parse_call(
          "aten::native_group_norm float32[1,6,3] ; float32[5] ; None ; 1 ; 6 ; 3 ; 2 ; 0.5"),
      1);
  EXPECT_EQ(report.outcome, CallOutcome::refused);
  for (const char* const part :
       {"node 0", "aten::native_group_norm", "train.py:7 in step", "'weight'", "[5]", "[6]"}) {
    EXPECT_NE(report.message.find(part), std::string::npos) << part << " in " << report.message;
  }
}

}  // namespace
}  // namespace laneway::testing

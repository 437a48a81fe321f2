// Shows that an iteration in a lane of any size either completes or leaves no trace: every lane
// from one allocation unit to the need, as a probe and planned, then a larger one, with the same
// bits as undisturbed. And that a plan gives the same addresses every time.
#include "service/worker/run/iteration.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "adaptor/device/device_job.h"
#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

constexpr int64_t kCount = 1000;
constexpr int64_t kLane = 1 << 16;

struct alignas(64) LaneMemory {
  std::byte bytes[kLane];
};

class Iterations : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = adaptor::make_job(*backend_, testing::adding_slots(kCount),
                                  lanes::encode_graph(testing::adding_graph(kCount)), mib(1));
    ASSERT_TRUE(made) << made.error().message;
    torch_ = std::move(made.value().job);
    graph_ = std::make_unique<WorkerGraph>(0, std::move(made.value().graph));
    torch_->bind_image(image_->bytes);
    std::memset(image_->bytes, 0, sizeof image_->bytes);
  }

  void set_lane(int64_t size) { arena_.bind(lane_->bytes, Bytes(size)); }
  IterationResult run() {
    const lanes::InputView input{.data = input_.data(), .bytes = kCount * 4};
    const lanes::OutputView output{.data = output_.data(), .bytes = kCount * 4};
    IterationResult result = run_iteration(*graph_, *device_, arena_, {&input, 1}, {&output, 1});
    learn(result, cache_);
    return result;
  }
  float state(size_t i) const { return reinterpret_cast<const float*>(image_->bytes)[i]; }

  std::unique_ptr<LaneMemory> lane_ = std::make_unique<LaneMemory>();
  std::unique_ptr<LaneMemory> image_ = std::make_unique<LaneMemory>();
  memory::LaneArena arena_{limits::kHostAlignment, memory::LaneArena::kPoison};
  const std::unique_ptr<adaptor::Backend> backend_ = adaptor::open_backend("host", {}).value();
  const std::unique_ptr<adaptor::DeviceLane> device_ = backend_->make_lane().value();
  std::unique_ptr<adaptor::DeviceJob> torch_;
  std::unique_ptr<WorkerGraph> graph_;
  PlanCache cache_{limits::kHostAlignment};
  std::vector<float> input_ = std::vector<float>(kCount, 1.5F);
  std::vector<float> output_ = std::vector<float>(kCount);
};

TEST_F(Iterations, CompleteOrLeaveNoTraceInEveryLane) {
  // Two of the graph's three tensors of 4,000 bytes are alive together.
  constexpr int64_t kNeed = 2 * 4032;
  float expected = 0;
  size_t abandoned = 0;
  for (const bool planned : {false, true}) {
    for (int64_t size = 64; size <= kNeed + 64; size += 64) {
      set_lane(size);
      if (!planned) graph_->plan = {};
      IterationResult result = run();
      if (result.end == IterationEnd::out_of_lane) {
        ++abandoned;
        EXPECT_GT(result.need, Bytes(size));
        EXPECT_LT(size, kNeed + 4032);
      } else {
        ASSERT_EQ(result.end, IterationEnd::completed) << result.error.message << " in " << size;
        EXPECT_GE(size, kNeed);
        expected += 3;
        EXPECT_EQ(output_[kCount - 1], expected);
      }
      EXPECT_EQ(state(0), expected) << "lane of " << size;
      EXPECT_EQ(state(kCount - 1), expected) << "lane of " << size;
      EXPECT_EQ(result.use.live_count, 0U);
      EXPECT_EQ(result.was_planned, planned);
    }
    set_lane(kLane);
    IterationResult result = run();
    ASSERT_EQ(result.end, IterationEnd::completed) << result.error.message;
    expected += 3;
    EXPECT_EQ(state(0), expected);
    apply(result, limits::kHostAlignment, graph_->plan);
    ASSERT_NE(graph_->plan.planned, nullptr);
    EXPECT_EQ(graph_->plan.need, Bytes(kNeed));
  }
  EXPECT_GT(abandoned, 200U);
}

TEST_F(Iterations, HaveTheSameAddressesOnceTheyArePlanned) {
  set_lane(kLane);
  for (int i = 0; i < 100; ++i) {
    IterationResult result = run();
    ASSERT_EQ(result.end, IterationEnd::completed);
    apply(result, limits::kHostAlignment, graph_->plan);
  }
  EXPECT_EQ(graph_->plan.iterations, 100U);
  EXPECT_EQ(graph_->plan.probes, 1U);
  EXPECT_EQ(graph_->plan.off_tape, 0U);
  EXPECT_EQ(graph_->plan.address_changes, 0U);
  EXPECT_NE(graph_->plan.address_hash, 0U);
}

// Of the graph's four nodes the first two and the last make a tensor each, and the first two die
// behind the second and the third: what is alive between nodes is that and nothing else, whatever
// operators allocate for themselves. What a probe marked stays known while its tape is planned.
TEST_F(Iterations, KnowWhichNodeAllocatedAndFreedWhat) {
  set_lane(kLane);
  const std::vector<uint32_t> alive_at_boundaries = {0, 1, 1, 0, 1};
  for (int i = 0; i < 3; ++i) {
    IterationResult result = run();
    ASSERT_EQ(result.end, IterationEnd::completed);
    EXPECT_EQ(result.was_planned, i > 0);
    apply(result, limits::kHostAlignment, graph_->plan);
    std::vector<uint32_t> alive;
    for (const auto& mark : graph_->plan.marks) alive.push_back(mark.allocations - mark.frees);
    EXPECT_EQ(alive, alive_at_boundaries);
  }
}

// An iteration that leaves its tape teaches a plan without marks, as nothing marked it: the next
// one tells them. That one is marked, so if it leaves its tape too, its plan has marks at once.
TEST_F(Iterations, TellTheirMarksAgainWhenTheyLeftTheirTape) {
  set_lane(kLane);
  const auto run_and_apply = [this](bool leaves_tape) {
    if (leaves_tape) {
      memory::AllocationTape other = graph_->plan.planned->tape;
      other.allocations.back().bytes += 64;
      memory::Plan plan = memory::plan_tape(other, {});
      graph_->plan.planned = memory::make_planned_tape(std::move(other), std::move(plan));
    }
    IterationResult result = run();
    EXPECT_EQ(result.end, IterationEnd::completed) << result.error.message;
    EXPECT_EQ(result.use.went_off_tape, leaves_tape);
    apply(result, limits::kHostAlignment, graph_->plan);
    return graph_->plan.marks;
  };
  using Marks = std::vector<memory::TapePosition>;
  const Marks marks = run_and_apply(/*leaves_tape=*/false);
  ASSERT_EQ(marks.size(), 5U);
  EXPECT_EQ(run_and_apply(/*leaves_tape=*/true), Marks());
  EXPECT_EQ(run_and_apply(/*leaves_tape=*/false), marks);
  EXPECT_EQ(run_and_apply(/*leaves_tape=*/true), Marks());
  EXPECT_EQ(run_and_apply(/*leaves_tape=*/true), marks);
}

TEST_F(Iterations, KeepWhatIsKnownWhenTheLaneWasSmallerThanThat) {
  graph_->plan.need = Bytes(1 << 20);
  IterationResult result;
  result.end = IterationEnd::out_of_lane;
  result.need = Bytes(4096);
  apply(result, limits::kHostAlignment, graph_->plan);
  EXPECT_EQ(graph_->plan.need, Bytes(1 << 20));
  result.need = Bytes(2 << 20);
  apply(result, limits::kHostAlignment, graph_->plan);
  EXPECT_EQ(graph_->plan.need, Bytes(2 << 20));
}

// fork() waits for whoever is in torch: a thread that is held forks, and would wait for itself.
TEST_F(Iterations, AreOutsideOfTorchWhileTheyAreHeld) {
  set_lane(kLane);
  lanes::ControlWord word;
  int held = 0;
  Interruption interruption{.word = word, .pause = [&] {
                              ++held;
                              const pid_t child = ::fork();
                              if (child == 0) ::_exit(0);
                              ASSERT_EQ(::waitpid(child, nullptr, 0), child);
                              word.clear(lanes::control::kPause);
                            }};
  word.set(lanes::control::kPause);
  const lanes::InputView input{.data = input_.data(), .bytes = kCount * 4};
  const lanes::OutputView output{.data = output_.data(), .bytes = kCount * 4};
  const IterationResult result = run_iteration(*graph_, *device_, arena_, {&input, 1}, {&output, 1},
                                               nullptr, nullptr, &interruption);
  EXPECT_EQ(result.end, IterationEnd::completed) << result.error.message;
  EXPECT_EQ(held, 1);
  EXPECT_EQ(state(0), 3.0F) << "once twice its input";
}

TEST_F(Iterations, ThatAreAskedToEndDoSoInTheirWay) {
  set_lane(kLane);
  lanes::ControlWord word;
  Interruption interruption{.word = word, .pause = {}};
  const std::pair<uint32_t, IterationEnd> cases[] = {
      {lanes::control::kAbandon, IterationEnd::abandoned},
      {lanes::control::kCancel, IterationEnd::cancelled}};
  for (const auto& [bit, end] : cases) {
    word.set(bit);
    const lanes::InputView input{.data = input_.data(), .bytes = kCount * 4};
    const lanes::OutputView output{.data = output_.data(), .bytes = kCount * 4};
    EXPECT_EQ(run_iteration(*graph_, *device_, arena_, {&input, 1}, {&output, 1}, nullptr, nullptr,
                            &interruption)
                  .end,
              end);
    EXPECT_EQ(state(0), 0.0F);
  }
}

}  // namespace
}  // namespace laneway::service

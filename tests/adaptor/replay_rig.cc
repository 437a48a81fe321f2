#include "tests/adaptor/replay_rig.h"

#include <gtest/gtest.h>

#include <utility>

#include "adaptor/scope/lane_scope.h"
#include "lanes/graph/graph_codec.h"
#include "lanes/run/executor.h"
#include "memory/planner.h"

namespace laneway::testing {
namespace {

constexpr Bytes kImage = mib(1);

class AlwaysGo final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

}  // namespace

ReplayJob::ReplayJob(std::unique_ptr<adaptor::Backend> backend, const lanes::Graph& graph,
                     const std::vector<lanes::ImageSlot>& slots)
    : backend_(std::move(backend)),
      pool_(backend_->device().allocate_pool(kImage + kLaneSize).value()),
      lane_(backend_->make_lane().value()),
      arena_(backend_->alignment()) {
  auto made = adaptor::make_job(*backend_, slots, lanes::encode_graph(graph), kImage + kLaneSize);
  job_ = std::move(made.value().job);
  graph_ = std::move(made.value().graph);
  for (uint32_t slot = 0; slot < job_->layout().slot_count(); ++slot) {
    std::vector<float> numbers(job_->layout().slot(slot).bytes / sizeof(float));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>((i + slot) % 7) * 0.25F - 0.5F;
    }
    EXPECT_TRUE(backend_->pool_access().write(place(slot), numbers.data(), bytes(slot)));
  }
  job_->bind_image(pool_->data());
  arena_.bind(pool_->data() + kImage.count(), kLaneSize);
}

Left ReplayJob::run(std::span<const lanes::InputView> inputs,
                    std::span<const lanes::OutputView> outputs) {
  {
    const adaptor::LaneScope scope(*lane_, arena_, graph_->graph().context);
    begin();
    AlwaysGo hooks;
    lanes::ControlWord word;
    const auto report = lanes::Executor(graph_->runner(), word, hooks).run(inputs, outputs);
    EXPECT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
    const auto enqueued = lane_->enqueue();
    learn(arena_.end());
    EXPECT_TRUE(enqueued->retire());
  }
  Left left{{}, {}, job_->random_state()};
  for (const lanes::OutputView& output : outputs) {
    const auto* const data = static_cast<const std::byte*>(output.data);
    left.outputs.emplace_back(data, data + output.bytes);
  }
  for (uint32_t slot = 0; slot < job_->layout().slot_count(); ++slot) {
    std::vector<std::byte> read(static_cast<size_t>(bytes(slot).count()));
    EXPECT_TRUE(backend_->pool_access().read(read.data(), place(slot), bytes(slot)));
    left.image.insert(left.image.end(), read.begin(), read.end());
  }
  return left;
}

void ReplayJob::abandon_at(size_t node, std::span<const lanes::InputView> inputs) {
  const adaptor::LaneScope scope(*lane_, arena_, graph_->graph().context);
  begin();
  ASSERT_TRUE(graph_->runner().begin(inputs));
  for (size_t i = 0; i < node; ++i) {
    ASSERT_EQ(graph_->runner().run_node(i), lanes::NodeOutcome::done);
  }
  graph_->runner().abandon();
  EXPECT_EQ(arena_.abandon().live_count, 0U);
}

Bytes ReplayJob::image_bytes() { return kImage; }

std::byte* ReplayJob::place(uint32_t slot) const {
  return pool_->data() + job_->layout().offset(slot).count();
}

Bytes ReplayJob::bytes(uint32_t slot) const {
  return Bytes(static_cast<int64_t>(job_->layout().slot(slot).bytes));
}

void ReplayJob::begin() {
  if (plan_ == nullptr) {
    arena_.begin_probe();
  } else {
    arena_.begin_planned(plan_);
  }
}

void ReplayJob::learn(memory::LaneArena::Use use) {
  EXPECT_EQ(use.live_count, 0U);
  if (!use.tape) return;
  EXPECT_TRUE(plan_ == nullptr || use.went_off_tape);
  ++plans_;
  memory::Plan plan = memory::plan_tape(*use.tape, {.alignment = arena_.alignment()});
  plan_ = memory::make_planned_tape(std::move(*use.tape), std::move(plan));
}

}  // namespace laneway::testing

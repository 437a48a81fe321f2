// Shows that a standby which prepared its jobs takes over as any other: what happened between its
// preparing and its activation counts, and that it writes nothing that is shared before.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/service/tiny_graphs.h"
#include "tests/service/worker_process/process_client.h"
#include "tests/support/graph_builder.h"

namespace laneway::service {
namespace {

using testing::ProcessClient;
using testing::ProcessJob;
using testing::WorkerRig;

constexpr int64_t kCount = 64;

// state += input + a random mask; output: the state afterwards.
lanes::Graph drawing_graph() {
  testing::GraphBuilder b("drawing");
  const auto input = b.input({kCount});
  const auto state = b.slot(0, {kCount});
  const auto mask = b.compute("aten::empty_like", {testing::arg(input)}, {kCount});
  b.write("aten::bernoulli_.float", mask,
          {testing::arg_real(0.5), testing::keyword("generator", {lanes::GeneratorArgument{}})});
  b.write("aten::add_.Tensor", state, {testing::arg(input)});
  b.write("aten::add_.Tensor", state, {testing::arg(mask)});
  b.output(b.compute("aten::clone", {testing::arg(state)}, {kCount}));
  return b.finish();
}

ProcessJob::Form form(const std::string& name, lanes::Graph graph) {
  return {.name = name,
          .user = 1,
          .slots = testing::adding_slots(kCount),
          .graph = std::move(graph),
          .initial = {}};
}

std::vector<float> run(ProcessClient& client, int times, uint32_t graph = 0) {
  std::vector<float> last;
  for (int i = 0; i < times; ++i) last = client.run(1, graph).value();
  return last;
}

TEST(PreparedStandby, GoesOnWithWhatWasDrawnSinceItPrepared) {
  std::vector<float> expected;
  {
    WorkerRig rig;
    rig.start();
    ProcessJob job(rig, form("undisturbed", drawing_graph()));
    ProcessClient client(job);
    expected = run(client, 9);
  }
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, form("disturbed", drawing_graph()));
  ProcessClient client(job);
  run(client, 1);
  rig.start_standby();
  run(client, 4);
  rig.take_over();
  run(client, 1);
  rig.start_standby();
  rig.take_over();
  EXPECT_EQ(run(client, 3), expected);
}

TEST(PreparedStandby, WritesNothingThatIsShared) {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, form("drawing", drawing_graph()));
  ProcessClient client(job);
  run(client, 3);
  const std::vector<std::byte> before = rig.shared_bytes();
  rig.start_standby();
  EXPECT_TRUE(rig.shared_bytes() == before);
}

TEST(PreparedStandby, GraphsAndJobsThatCameAndWentSinceAreAsTheyAre) {
  WorkerRig rig;
  rig.start();
  ProcessJob stays(rig, form("stays", testing::adding_graph(kCount)));
  ProcessClient client(stays);
  const uint32_t reading = stays.add_graph(testing::reading_graph(kCount));
  run(client, 2);
  ProcessJob goes(rig, form("goes", testing::adding_graph(kCount)));
  rig.start_standby();
  goes.close();
  const uint32_t late = stays.add_graph(testing::reading_graph(kCount));
  ProcessJob comes(rig, form("comes", testing::adding_graph(kCount)));
  ProcessClient other(comes);
  run(other, 1);
  rig.take_over();
  EXPECT_FLOAT_EQ(run(client, 1).front(), 6);
  EXPECT_FLOAT_EQ(run(client, 1, reading).front(), 7);
  EXPECT_FLOAT_EQ(run(client, 1, late).front(), 7);
  EXPECT_FLOAT_EQ(run(other, 1).front(), 4);
}

}  // namespace
}  // namespace laneway::service

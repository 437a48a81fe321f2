#include "tests/service/worker_process/noisy_job.h"

#include <cstring>
#include <utility>

#include "tests/service/tiny_graphs.h"
#include "tests/support/graph_builder.h"

namespace laneway::testing {
namespace {

lanes::Graph noisy_graph(int64_t count) {
  GraphBuilder b("noisy");
  const auto input = b.input({count});
  const auto state = b.slot(0, {count});
  const auto mask = b.compute("aten::empty_like", {arg(input)}, {count});
  b.write("aten::bernoulli_.float", mask,
          {arg_real(0.5), keyword("generator", {lanes::GeneratorArgument{}})});
  const auto twice = b.compute("aten::mul.Scalar", {arg(input), arg_real(2)}, {count});
  b.write("aten::add_.Tensor", state, {arg(twice)});
  b.write("aten::add_.Tensor", state, {arg(mask)});
  b.output(b.compute("aten::clone", {arg(state)}, {count}));
  return b.finish();
}

}  // namespace

ProcessJob::Form noisy(const std::string& name, size_t count) {
  std::vector<std::byte> initial(count * sizeof(float));
  const float quarter = 0.25F;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(initial.data() + i * sizeof(float), &quarter, sizeof(quarter));
  }
  return {.name = name,
          .user = 1,
          .slots = adding_slots(static_cast<int64_t>(count)),
          .graph = noisy_graph(static_cast<int64_t>(count)),
          .initial = std::move(initial)};
}

Seen play(ProcessClient& client) {
  Seen seen;
  const auto keep = [&](const Result<std::vector<float>>& output) {
    if (output) {
      seen.outputs.push_back(output.value());
    } else {
      seen.error = output.error();
    }
    return output.ok();
  };
  std::vector<std::byte> random;
  for (int i = 0; i < 3; ++i) {
    if (!keep(client.run(1))) return seen;
  }
  const auto state = client.read_state(&random);
  if (!state) {
    seen.error = state.error();
    return seen;
  }
  if (!keep(client.run(2))) return seen;
  // Back to where it was, generator included: the same draw comes again.
  if (Status written = client.write_state(state.value(), random); !written) {
    seen.error = written.error();
    return seen;
  }
  if (!keep(client.run(2))) return seen;
  std::vector<ProcessClient::Handle> pending;
  for (uint32_t i = 0; i < 6; ++i) pending.push_back(client.submit(3, i));
  for (uint32_t i = 0; i < 6; ++i) {
    if (Status done = client.wait(pending[i]); !done) {
      seen.error = done.error();
      return seen;
    }
    seen.outputs.push_back(client.output(i));
  }
  const auto last = client.read_state(&seen.random);
  if (last) {
    seen.state = last.value();
  } else {
    seen.error = last.error();
  }
  return seen;
}

Seen undisturbed() {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, noisy("undisturbed"));
  ProcessClient client(job);
  return play(client);
}

}  // namespace laneway::testing

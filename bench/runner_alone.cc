// laneway-runner-alone: what an iteration takes by itself.
//
//     laneway-runner-alone GRAPH CORE
//
// Loads the graph in the file GRAPH (without slots; each input 16 zero bytes, one output of 16) and
// runs it with the executor on this thread: no lane's thread, no turn, nobody else. CORE as for
// laneway-ring-roundtrip. Trials as in bench/trial_loop.h.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "adaptor/host/host_backend.h"
#include "adaptor/run/torch_job.h"
#include "adaptor/scope/lane_scope.h"
#include "base/bytes.h"
#include "bench/trial_loop.h"
#include "lanes/run/control_word.h"
#include "lanes/run/executor.h"
#include "memory/lane_arena.h"

namespace {

class NoHooks final : public laneway::lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  laneway::lanes::CommitDecision enter_commit_phase(size_t) override {
    return laneway::lanes::CommitDecision::go;
  }
};

void fail(const std::string& why) {
  std::fprintf(stderr, "laneway-runner-alone: %s\n", why.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: laneway-runner-alone GRAPH CORE (-1: anywhere)\n");
    return 2;
  }
  laneway::bench::stay_on_core(static_cast<int>(std::strtol(argv[2], nullptr, 10)));
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<char> graph{std::istreambuf_iterator<char>(file), {}};
  laneway::adaptor::HostBackend backend;
  auto made = laneway::adaptor::TorchJob::make(backend, {}, std::as_bytes(std::span(graph)),
                                               laneway::mib(1), /*known=*/nullptr);
  if (!made) fail(made.error().message);
  auto lane = backend.make_lane();
  if (!lane) fail(lane.error().message);
  alignas(64) static std::byte ephemeral[1 << 16];
  laneway::memory::LaneArena arena(backend.alignment());
  arena.bind(ephemeral, laneway::Bytes(sizeof ephemeral));
  const laneway::adaptor::LaneScope scope(*lane.value(), arena,
                                          made.value().graph->graph().context);
  NoHooks hooks;
  laneway::lanes::ControlWord word;
  laneway::lanes::Executor executor(made.value().graph->runner(), word, hooks);
  unsigned char in[16] = {};
  unsigned char out[16] = {};
  laneway::lanes::InputView input;
  input.data = in;
  input.bytes = sizeof(in);
  laneway::lanes::OutputView output;
  output.data = out;
  output.bytes = sizeof(out);
  return laneway::bench::serve_trials([&] {
    arena.begin_probe();
    const int64_t start = laneway::bench::now_ns();
    const auto report = executor.run({&input, 1}, {&output, 1});
    const int64_t end = laneway::bench::now_ns();
    if (report.outcome != laneway::lanes::IterationOutcome::completed) fail(report.error.message);
    (void)arena.end();
    return end - start;
  });
}

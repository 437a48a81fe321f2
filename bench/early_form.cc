// laneway-early-form: a training step in its late form, as it was captured, and in its early one.
//
//     laneway-early-form FOLDER TRIALS
//
// Loads the job whose files are in FOLDER (bench/job_files.h), makes the early form, records a tape
// of each, and runs each by the plan with the lowest peak, A-B-B-A, TRIALS times two a form, from
// the same state. A form that leaves other bits than the late form's first iteration ends the
// program with 1. Prints one JSON object: "refused" (null, or why there is no early form), "moved"
// (groups of nodes), and "late" and "early" (null where it is refused), each with "first_write",
// "nodes", its tape (bench/plan_output.h), "peak_bytes" of the plan, and "iteration_ns".
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/run/torch_program.h"
#include "bench/plan_output.h"
#include "bench/planned_job.h"
#include "bench/trial_loop.h"
#include "lanes/graph/early_form.h"
#include "lanes/graph/graph_codec.h"
#include "memory/planned_tape.h"
#include "memory/planner.h"

namespace {

using laneway::bench::now_ns;
using laneway::bench::PlannedJob;
namespace adaptor = laneway::adaptor;
namespace lanes = laneway::lanes;
namespace memory = laneway::memory;

std::vector<bool> drawing_nodes(const adaptor::TorchGraph& graph) {
  const auto program = graph.program();
  const auto& resolved = *dynamic_cast<const adaptor::TorchProgram&>(*program).resolved;
  std::vector<bool> draws;
  for (const auto& step : resolved.steps) {
    draws.push_back(step.kind == adaptor::ResolvedGraph::StepKind::call &&
                    resolved.calls[step.index].is_random());
  }
  return draws;
}

// One form: its tape, the plan that it runs by, and what its iterations take.
class Form {
 public:
  Form(PlannedJob& job, adaptor::DeviceGraph& graph)
      : job_(job),
        graph_(graph),
        use_(job.record(graph)),
        plan_(memory::plan_tape(*use_.tape, {.alignment = job.alignment()})),
        planned_(memory::make_planned_tape(*use_.tape, plan_)),
        bits_(job.results()) {}

  const std::vector<std::byte>& bits() const { return bits_; }

  void run(const std::vector<std::byte>& bits) {
    const int64_t start = now_ns();
    job_.run_planned(graph_, graph_.runner(), planned_);
    times_.push_back(now_ns() - start);
    if (job_.results() != bits) laneway::bench::fail("the bits are not those of the late form");
  }

  void print(const char* name, const char* end) const {
    std::printf("\"%s\": {\"first_write\": %zu, \"nodes\": %zu, ", name,
                graph_.runner().first_write(), graph_.runner().node_count());
    laneway::bench::print_tape(*use_.tape, use_.marks);
    laneway::bench::print_ns("iteration_ns", times_);
    std::printf("\"peak_bytes\": %lld}%s", static_cast<long long>(plan_.peak.count()), end);
  }

 private:
  PlannedJob& job_;
  adaptor::DeviceGraph& graph_;
  const memory::LaneArena::Use use_;
  const memory::Plan plan_;
  const std::shared_ptr<const memory::PlannedTape> planned_;
  const std::vector<std::byte> bits_;
  std::vector<int64_t> times_;
};

// Of a message, which has no control characters.
std::string json_text(const std::string& text) {
  std::ostringstream quoted;
  quoted << std::quoted(text);
  return quoted.str();
}

int compare(PlannedJob& job, int trials) {
  Form late(job, job.graph());
  auto early_graph =
      lanes::early_form(job.graph().graph(), drawing_nodes(job.graph()), job.alignment());
  std::string refused = early_graph ? std::string() : early_graph.error().message;
  std::unique_ptr<adaptor::DeviceGraph> loaded;
  if (early_graph) {
    auto made = job.make_graph(lanes::encode_graph(early_graph.value().graph));
    if (made) {
      loaded = std::move(made).value();
    } else {
      refused = made.error().message;
    }
  }
  std::unique_ptr<Form> early;
  if (loaded) early = std::make_unique<Form>(job, *loaded);
  for (int trial = 0; trial < trials; ++trial) {
    late.run(late.bits());
    if (early) early->run(late.bits());
    if (early) early->run(late.bits());
    late.run(late.bits());
  }
  std::printf("{\"refused\": %s, \"moved\": %u, ",
              refused.empty() ? "null" : json_text(refused).c_str(),
              early ? early_graph.value().moved : 0);
  late.print("late", ", ");
  if (early) {
    early->print("early", "}\n");
  } else {
    std::printf("\"early\": null}\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc == 3 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 0;
  if (trials < 1) {
    std::fprintf(stderr, "usage: laneway-early-form FOLDER TRIALS (at least 1)\n");
    return 2;
  }
  PlannedJob job(argv[1]);
  return compare(job, trials);
}

// Shows, for a real model's step, that an iteration which does not fit its lane leaves no trace and
// runs again with the same bits: refused at every allocation before its first persistent write, as
// a probe and planned, and in lanes smaller than its need.
//
//   abandon_model DIRECTORY [MOST]
//
// DIRECTORY has case.json, graph.bin, image.bin and inputs.bin (tests/python/support/
// write_model_cases.py). With MOST, at most so many allocations are tried, evenly spread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/host/host_backend.h"
#include "adaptor/run/torch_job.h"
#include "base/limits.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/work.h"

namespace laneway {
namespace {

using Bytestring = std::vector<std::byte>;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "abandon_model: %s\n", what.c_str());
  std::exit(1);
}

void expect(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

Bytestring file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Bytestring bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Bytes at a multiple of limits::kHostAlignment.
class Aligned {
 public:
  explicit Aligned(size_t size) : held_(size + limits::kHostAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(held_.data());
    data_ = held_.data() + (limits::kHostAlignment - address % limits::kHostAlignment);
  }
  std::byte* data() { return data_; }

 private:
  Bytestring held_;
  std::byte* data_;
};

class Model {
 public:
  explicit Model(const std::string& directory)
      : description_(nlohmann::json::parse(std::ifstream(directory + "/case.json"))),
        initial_(file(directory + "/image.bin")),
        inputs_bytes_(file(directory + "/inputs.bin")) {
    std::vector<lanes::ImageSlot> slots;
    for (const auto& slot : description_.at("slots")) {
      slots.push_back({.name = slot.at("name"),
                       .kind = static_cast<lanes::SlotKind>(slot.at("kind").get<int>()),
                       .bytes = slot.at("bytes")});
    }
    auto made = adaptor::TorchJob::make(backend_, slots, file(directory + "/graph.bin"), gib(64),
                                        /*known=*/nullptr);
    if (!made) fail(made.error().message);
    job_ = std::move(made.value().job);
    graph_ = std::make_unique<service::WorkerGraph>(0, std::move(made.value().graph));
    image_bytes_ = static_cast<size_t>(job_->layout().total().count());
    image_ = std::make_unique<Aligned>(image_bytes_);
    lane_size_ = Bytes(2 * graph_->torch->probe_need().count() + (1 << 20))
                     .aligned_up(limits::kHostAlignment);
    lane_ = std::make_unique<Aligned>(static_cast<size_t>(lane_size_.count()));
    job_->bind_image(image_->data());
    random_ = job_->random_state();
    make_views();
    restore();
  }

  size_t first_write() const { return graph_->torch->graph().first_write; }
  service::GraphPlan& plan() { return graph_->plan; }
  Bytes lane_size() const { return lane_size_; }
  memory::LaneArena& arena() { return arena_; }

  void restore() {
    std::memset(image_->data(), 0, image_bytes_);
    size_t from = 0;
    for (uint32_t i = 0; i < job_->layout().slot_count(); ++i) {
      const uint64_t bytes = job_->layout().slot(i).bytes;
      const Bytes offset = job_->layout().offset(i);
      if (bytes > 0) std::memcpy(image_->data() + offset.count(), initial_.data() + from, bytes);
      from += bytes;
    }
    expect(job_->set_random_state(random_).ok(), "the random state cannot be put back");
  }
  void set_lane(Bytes size) { arena_.bind(lane_->data(), size); }
  service::IterationResult run() {
    return service::run_iteration(*graph_, *device_, arena_, inputs_, outputs_);
  }
  Bytestring image() const { return {image_->data(), image_->data() + image_bytes_}; }
  Bytestring outputs() const { return output_bytes_; }
  Bytestring random() const { return job_->random_state(); }

 private:
  void make_views() {
    const std::byte* next = inputs_bytes_.data();
    for (const auto& input : description_.at("inputs")) {
      lanes::InputView view;
      if (input.contains("real")) {
        view.real = input.at("real");
      } else {
        view.bytes = input.at("bytes");
        view.data = next;
        next += view.bytes;
      }
      inputs_.push_back(view);
    }
    const lanes::Graph& graph = graph_->torch->graph();
    uint64_t total = 0;
    for (const auto value : graph.outputs) total += service::output_bytes(graph, value);
    output_bytes_.resize(total);
    std::byte* place = output_bytes_.data();
    for (const auto value : graph.outputs) {
      const uint64_t bytes = service::output_bytes(graph, value);
      outputs_.push_back({.data = place, .bytes = bytes});
      place += bytes;
    }
  }

  const nlohmann::json description_;
  const Bytestring initial_;
  const Bytestring inputs_bytes_;
  adaptor::HostBackend backend_;
  const std::unique_ptr<adaptor::DeviceLane> device_ = backend_.make_lane().value();
  std::unique_ptr<adaptor::TorchJob> job_;
  std::unique_ptr<service::WorkerGraph> graph_;
  size_t image_bytes_ = 0;
  Bytes lane_size_;
  std::unique_ptr<Aligned> image_;
  std::unique_ptr<Aligned> lane_;
  Bytestring random_;
  memory::LaneArena arena_{limits::kHostAlignment, memory::LaneArena::poison_asked_for()};
  std::vector<lanes::InputView> inputs_;
  std::vector<lanes::OutputView> outputs_;
  Bytestring output_bytes_;
};

// What one undisturbed iteration leaves.
struct Outcome {
  Bytestring image, outputs, random;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const Model& model) { return {model.image(), model.outputs(), model.random()}; }

// The iteration stops in whatever the arena refuses, and then runs in a lane that is large enough.
void check_abandoned(Model& model, const Outcome& expected, const std::string& where) {
  const Bytestring image = model.image();
  const Bytestring random = model.random();
  const service::IterationResult stopped = model.run();
  expect(stopped.end == service::IterationEnd::out_of_lane,
         where + ": ended as " + std::to_string(static_cast<int>(stopped.end)) + " " +
             stopped.error.message);
  expect(stopped.use.live_count == 0, where + ": left memory alive");
  expect(model.image() == image, where + ": changed the image");
  expect(model.random() == random, where + ": drew random numbers");
  model.set_lane(model.lane_size());
  const service::IterationResult again = model.run();
  expect(again.end == service::IterationEnd::completed, where + ": " + again.error.message);
  expect(outcome_of(model) == expected, where + ": other bits when run again");
  model.restore();
}

// Which of `count` things to try: all, or `most`, the first and the last among them.
std::vector<uint64_t> chosen(uint64_t count, uint64_t most) {
  std::vector<uint64_t> found;
  const uint64_t tried = most == 0 ? count : std::min(count, most);
  for (uint64_t i = 0; i < tried; ++i) {
    found.push_back(tried == 1 ? 0 : i * (count - 1) / (tried - 1));
  }
  return found;
}

void check_every_allocation(Model& model, const Outcome& expected, uint64_t count, uint64_t most) {
  for (const uint64_t index : chosen(count, most)) {
    model.set_lane(model.lane_size());
    model.arena().refuse_at(index);
    check_abandoned(model, expected, "refused at allocation " + std::to_string(index));
  }
}

void check_smaller_lanes(Model& model, const Outcome& expected, Bytes need, uint64_t most) {
  const int64_t steps = most == 0 ? 24 : std::max<int64_t>(1, static_cast<int64_t>(most) / 4);
  for (int64_t i = 1; i <= steps; ++i) {
    const Bytes size = std::min(Bytes(need.count() / steps * i).aligned_up(limits::kHostAlignment),
                                need - Bytes(limits::kHostAlignment));
    model.set_lane(size);
    check_abandoned(model, expected, "in a lane of " + format_bytes(size));
  }
}

int check(const std::string& directory, uint64_t most) {
  Model model(directory);
  model.set_lane(model.lane_size());
  service::IterationResult probe = model.run();
  expect(probe.end == service::IterationEnd::completed, probe.error.message);
  const Outcome expected = outcome_of(model);
  expect(expected.image != (model.restore(), model.image()), "the step changes nothing");
  const uint64_t before_write = probe.use.marks.at(model.first_write()).allocations;
  const uint64_t all = probe.use.allocations;

  check_every_allocation(model, expected, before_write, most);
  check_smaller_lanes(model, expected, probe.use.peak, most);
  service::PlanCache cache{limits::kHostAlignment};
  service::learn(probe, cache);
  service::apply(probe, limits::kHostAlignment, model.plan());
  expect(model.plan().planned != nullptr, "the probe gave no plan");
  check_every_allocation(model, expected, before_write, most);
  check_smaller_lanes(model, expected, model.plan().need, most);
  std::printf("%s: %lu of %lu allocations come before the first write; %zu refused twice; ok\n",
              directory.c_str(), before_write, all, chosen(before_write, most).size());
  return 0;
}

}  // namespace
}  // namespace laneway

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: abandon_model DIRECTORY [MOST]\n");
    return 2;
  }
  return laneway::check(argv[1], argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0);
}

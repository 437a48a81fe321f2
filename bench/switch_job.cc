#include "bench/switch_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "adaptor/scope/lane_scope.h"
#include "lanes/run/control_word.h"
#include "lanes/run/executor.h"
#include "pipeline/arrival.h"
#include "service/worker/run/plan_cache.h"

namespace laneway::bench {
namespace {

constexpr Bytes kBuffer = mib(1);

class NoHooks final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

// "model/layer1.0.conv1.weight": "model/layer1.0"; "model/0.weight": "model/0".
std::string module_of(const std::string& name) {
  const std::string owner = name.substr(0, name.rfind('.'));
  const size_t first = owner.find('.');
  return owner.substr(0, first == std::string::npos ? first : owner.find('.', first + 1));
}

template <class T>
T value_of(Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(result).value();
}

}  // namespace

void give_up(const std::string& why) {
  std::fprintf(stderr, "laneway-switch-schedules: %s\n", why.c_str());
  std::exit(1);
}

SwitchJob::SwitchJob(const std::string& folder, int64_t bytes_per_s) {
  files_ = value_of(read_job_files(folder));
  made_ = value_of(adaptor::TorchJob::make(backend_, files_.slots,
                                           std::as_bytes(std::span(files_.graph)), mib(1 << 20),
                                           /*known=*/nullptr));
  for (const ImageSlot& slot : files_.slots) names_.push_back(slot.name);
  needs_ = pipeline::arrival_needs(made_.graph->graph(), made_.job->layout());
  needs_.back() = size();
  pool_ = value_of(backend_.device().allocate_pool(size()));
  made_.job->bind_image(pool_->data());
  outside_ = value_of(files_.image_in(made_.job->layout()));
  buffer_.resize(static_cast<size_t>(kBuffer.count()));
  given_.resize(files_.outputs.size());
  input_views_ = files_.input_views(made_.graph->graph());
  output_views_ = files_.output_views(given_);
  lane_memory_ = value_of(backend_.device().allocate_pool(made_.graph->probe_need() * 2));
  lane_ = value_of(backend_.make_lane());
  arena_ = std::make_unique<memory::LaneArena>(backend_.alignment());
  arena_->bind(lane_memory_->data(), lane_memory_->size());
  put_there();
  run(runner());
  backend_.pool_access().set_bandwidth(bytes_per_s);
}

std::vector<Piece> SwitchJob::by_slot() const {
  const pipeline::ImageLayout& layout = made_.job->layout();
  std::vector<Piece> pieces;
  for (const uint32_t slot : layout.by_offset()) {
    if (layout.slot(slot).bytes == 0) continue;
    if (!pieces.empty()) pieces.back().end = layout.offset(slot);
    pieces.push_back({layout.offset(slot), size()});
  }
  return pieces;
}

std::vector<Piece> SwitchJob::by_need() const {
  std::vector<Piece> pieces;
  Bytes end;
  for (const Bytes need : needs_) {
    if (need > end) pieces.push_back({end, need});
    end = std::max(end, need);
  }
  return pieces;
}

std::vector<Piece> SwitchJob::by_module() const {
  const pipeline::ImageLayout& layout = made_.job->layout();
  std::vector<Piece> pieces;
  std::string module;
  for (const uint32_t slot : layout.by_offset()) {
    if (layout.slot(slot).bytes == 0) continue;
    const std::string next = module_of(names_[slot]);
    if (!pieces.empty() && next == module) continue;
    if (!pieces.empty()) pieces.back().end = layout.offset(slot);
    pieces.push_back({layout.offset(slot), size()});
    module = next;
  }
  return pieces;
}

void SwitchJob::take_away() {
  std::memset(pool_->data(), 0xFF, static_cast<size_t>(size().count()));
}

void SwitchJob::put_there() { std::memcpy(pool_->data(), outside_.data(), outside_.size()); }

void SwitchJob::copy(const Piece& piece, bool bounce) {
  const Bytes step = bounce ? kBuffer : piece.end - piece.begin;
  for (Bytes at = piece.begin; at < piece.end; at += step) {
    const Bytes bytes = std::min(step, piece.end - at);
    const std::byte* from = outside_.data() + at.count();
    if (bounce) {
      std::memcpy(buffer_.data(), from, static_cast<size_t>(bytes.count()));
      from = buffer_.data();
    }
    const Status done = backend_.pool_access().write(pool_->data() + at.count(), from, bytes);
    if (!done) give_up(done.error().message);
  }
}

void SwitchJob::run(lanes::GraphRunner& runner) {
  std::fill(given_.begin(), given_.end(), '\x7f');
  const adaptor::LaneScope scope(*lane_, *arena_, made_.graph->graph().context);
  NoHooks hooks;
  lanes::ControlWord word;
  plan_ != nullptr ? arena_->begin_planned(plan_) : arena_->begin_probe();
  const auto report = lanes::Executor(runner, word, hooks).run(input_views_, output_views_);
  if (report.outcome != lanes::IterationOutcome::completed) give_up(report.error.message);
  memory::LaneArena::Use use = arena_->end();
  if (use.tape) {
    plan_ = service::PlanCache(backend_.alignment()).plan(std::move(*use.tape)).planned;
  }
  if (given_ != files_.outputs) give_up("an answer is not eager's");
}

}  // namespace laneway::bench

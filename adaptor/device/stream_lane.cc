#include "adaptor/device/stream_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/device/limits.h"
#include "memory/device/streaming_copy.h"

namespace laneway::adaptor {
namespace {

std::byte* at(void* base, int64_t offset) { return static_cast<std::byte*>(base) + offset; }

const std::byte* at(const void* base, int64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

size_t count(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

}  // namespace

Status as_device_status(Status status) {
  if (status.ok()) return status;
  switch (status.error().code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_memory:
    case ErrorCode::refused:
    case ErrorCode::device_lost: return status;
    default: return Error{ErrorCode::device_lost, status.error().message};
  }
}

class StreamLane::StreamIteration final : public lanes::EnqueuedIteration {
 public:
  // Without `end` everything is over, as `ended` says.
  StreamIteration(std::shared_ptr<Staging> staging, Copies copies,
                  std::unique_ptr<memory::Event> end, Status ended)
      : staging_(std::move(staging)),
        copies_(std::move(copies)),
        end_(std::move(end)),
        ended_(std::move(ended)) {}
  ~StreamIteration() override {
    [[maybe_unused]] const Status waited = wait();
    staging_->give_back(copies_.batch);
  }
  StreamIteration(const StreamIteration&) = delete;
  StreamIteration& operator=(const StreamIteration&) = delete;

  bool done() const override {
    return end_ == nullptr || end_->query() == memory::EventState::done;
  }

  Status retire() override {
    if (Status over = wait(); !over) return over;
    for (const Download& download : copies_.downloads) {
      std::memcpy(download.to_host, download.staged, count(download.bytes));
    }
    copies_.downloads.clear();
    copies_.unpinned.clear();
    staging_->give_back(copies_.batch);
    return {};
  }

 private:
  Status wait() {
    if (end_ != nullptr) ended_ = as_device_status(end_->synchronize());
    end_.reset();
    return ended_;
  }

  const std::shared_ptr<Staging> staging_;
  Copies copies_;
  std::unique_ptr<memory::Event> end_;
  Status ended_;
};

StreamLane::StreamLane(memory::Device& device, std::unique_ptr<memory::Stream> stream,
                       const Clock& clock)
    : device_(device),
      stream_(std::move(stream)),
      staging_(std::make_shared<Staging>(device)),
      run_ahead_(device, *stream_, clock) {}

StreamLane::~StreamLane() { drop_downloads(); }

Status StreamLane::enqueue(const std::function<Status()>& call) {
  Status done = call();
  if (!done && done.error().code == ErrorCode::refused) {
    if (Status waited = synchronize(); !waited) return waited;
    done = call();
  }
  return as_device_status(std::move(done));
}

Status StreamLane::synchronize() {
  Status done = as_device_status(stream_->synchronize());
  if (done) run_ahead_.drained();
  return done;
}

Status StreamLane::upload(void* to_device, const void* from_host, Bytes bytes) {
  if (!refusal_) return refusal_;
  if (bytes <= Bytes()) return {};
  std::byte* const staged = staging_->take(copies_.batch, bytes);
  if (staged == nullptr) {
    Status sent = enqueue([&] { return stream_->copy_to_device(to_device, from_host, bytes); });
    return sent ? synchronize() : sent;
  }
  for (int64_t sent = 0; sent < bytes.count(); sent += limits::kStagingPiece.count()) {
    const Bytes piece = std::min(limits::kStagingPiece, bytes - Bytes(sent));
    std::memcpy(staged + sent, at(from_host, sent), count(piece));
    Status enqueued =
        enqueue([&] { return stream_->copy_to_device(at(to_device, sent), staged + sent, piece); });
    if (!enqueued) return enqueued;
  }
  return {};
}

Status StreamLane::download(void* to_host, const void* from_device, Bytes bytes) {
  if (!refusal_) return refusal_;
  if (bytes <= Bytes()) return {};
  std::byte* staged = staging_->take(copies_.batch, bytes);
  const bool pinned = staged != nullptr;
  if (!pinned) {
    copies_.unpinned.push_back(std::make_unique_for_overwrite<std::byte[]>(count(bytes)));
    staged = copies_.unpinned.back().get();
  }
  Status enqueued = enqueue([&] { return stream_->copy_to_host(staged, from_device, bytes); });
  if (!enqueued) return enqueued;
  copies_.downloads.push_back({to_host, staged, bytes});
  return pinned ? Status() : synchronize();
}

Status StreamLane::save(void* to_host, const void* from_device, Bytes bytes) {
  if (!refusal_) return refusal_;
  if (bytes <= Bytes()) return {};
  std::byte* const staged = staging_->take(copies_.batch, bytes);
  // Straight there a device may let the caller wait until it has done everything before.
  void* const to = staged != nullptr ? staged : to_host;
  Status enqueued = enqueue([&] { return stream_->copy_to_host(to, from_device, bytes); });
  if (enqueued && staged != nullptr) copies_.saved.push_back({to_host, staged, bytes});
  return enqueued;
}

Status StreamLane::mark(std::atomic<uint64_t>& at, uint64_t value) {
  if (!refusal_) return refusal_;
  const auto bring = [saved = std::exchange(copies_.saved, {}), &at, value] {
    for (const Download& one : saved) {
      memory::unordered_streaming_copy(one.to_host, one.staged, count(one.bytes));
    }
    at.store(value, std::memory_order_release);
  };
  return enqueue([&] { return stream_->host_function(bring); });
}

Status StreamLane::wait_for(memory::Event& event) {
  if (!refusal_) return refusal_;
  run_ahead_.stream_waits();
  return enqueue([&] { return stream_->wait(event); });
}

Status StreamLane::node_enqueued() {
  if (!refusal_) return refusal_;
  if (is_recording()) return {};
  return marked(run_ahead_.node_enqueued());
}

Status StreamLane::recording_launched() {
  if (!refusal_) return refusal_;
  return marked(run_ahead_.recording_launched());
}

Status StreamLane::marked(Status status) {
  if (!status && status.error().code == ErrorCode::refused) return synchronize();
  return as_device_status(std::move(status));
}

std::unique_ptr<lanes::EnqueuedIteration> StreamLane::enqueue() {
  std::unique_ptr<memory::Event> end;
  Status ended;
  if (Result<std::unique_ptr<memory::Event>> made = device_.create_event(); made.ok()) {
    end = std::move(made).value();
    if (!enqueue([&] { return stream_->record(*end); })) end.reset();
  }
  if (end == nullptr) ended = synchronize();
  return std::make_unique<StreamIteration>(staging_, std::exchange(copies_, {}), std::move(end),
                                           std::move(ended));
}

void StreamLane::drop_downloads() {
  // An error lasts, and is found by the next call that can tell it.
  [[maybe_unused]] const Status waited = synchronize();
  copies_.downloads.clear();
  copies_.saved.clear();
  copies_.unpinned.clear();
  staging_->give_back(copies_.batch);
}

Status StreamLane::drain() { return synchronize(); }

}  // namespace laneway::adaptor

#include "tests/support/synthetic_device.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "memory/device/host_event.h"
#include "memory/device/limits.h"
#include "memory/device/work_stream.h"

namespace laneway::memory {

class SyntheticDevice::SyntheticStream final : public WorkStream {
 public:
  explicit SyntheticStream(SyntheticDevice& device)
      : WorkStream(device.memory_, device.engine_), device_(device) {
    device_.add(this);
  }
  ~SyntheticStream() override {
    [[maybe_unused]] const Status done = synchronize();
    device_.remove(this);
  }
  SyntheticStream(const SyntheticStream&) = delete;
  SyntheticStream& operator=(const SyntheticStream&) = delete;

  Status synchronize() override {
    Work mark;
    const auto reached = std::make_shared<Completion>();
    mark.run = [reached] { reached->complete(); };
    push(std::move(mark));
    device_.drive(*reached);
    return {};
  }

  // Runs the front; the caller holds the crank.
  bool run_front() {
    Work work;
    {
      const MutexLock lock(mutex_);
      if (queue_.empty()) return false;
      if (queue_.front().after != nullptr && !queue_.front().after->is_complete()) return false;
      work = std::move(queue_.front());
    }
    work.run();
    const MutexLock lock(mutex_);
    queue_.pop_front();
    return true;
  }

  size_t size() const {
    const MutexLock lock(mutex_);
    return queue_.size();
  }

 private:
  Status enqueue(Work work) override {
    if (size() >= limits::kMaxStreamQueue) return stream_is_full();
    push(std::move(work));
    return {};
  }
  void push(Work work) {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }

  SyntheticDevice& device_;
  mutable Mutex mutex_;
  std::deque<Work> queue_ LW_GUARDED_BY(mutex_);
};

SyntheticDevice::SyntheticDevice() {
  capabilities_.name = "synthetic";
  capabilities_.alignment = limits::kHostAlignment;
  capabilities_.advances_by_itself = false;
}

SyntheticDevice::~SyntheticDevice() {
  const MutexLock lock(streams_mutex_);
  LW_CHECK(streams_.empty(), "a device is gone before its streams");
}

Result<std::unique_ptr<MemoryBlock>> SyntheticDevice::allocate_pool(Bytes size) {
  return memory_.allocate_pool(size);
}

Result<std::unique_ptr<MemoryBlock>> SyntheticDevice::allocate_host(Bytes size) {
  return memory_.allocate_host(size);
}

Result<std::unique_ptr<Stream>> SyntheticDevice::create_stream() {
  return std::unique_ptr<Stream>(std::make_unique<SyntheticStream>(*this));
}

Result<std::unique_ptr<Event>> SyntheticDevice::create_event() {
  return std::unique_ptr<Event>(
      std::make_unique<HostEvent>([this](const Completion& record) { drive(record); }));
}

bool SyntheticDevice::run_one(Stream& stream) {
  auto* own = dynamic_cast<SyntheticStream*>(&stream);
  LW_CHECK(own != nullptr, "a stream of another device");
  const MutexLock crank(crank_mutex_);
  return own->run_front();
}

bool SyntheticDevice::run_any(Random& random) {
  const MutexLock crank(crank_mutex_);
  std::vector<SyntheticStream*> order;
  {
    const MutexLock lock(streams_mutex_);
    order = streams_;
  }
  while (!order.empty()) {
    const size_t which = random.below(order.size());
    if (order[which]->run_front()) return true;
    order.erase(order.begin() + static_cast<ptrdiff_t>(which));
  }
  return false;
}

size_t SyntheticDevice::run_all() {
  const MutexLock crank(crank_mutex_);
  std::vector<SyntheticStream*> order;
  {
    const MutexLock lock(streams_mutex_);
    order = streams_;
  }
  size_t ran = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (SyntheticStream* stream : order) {
      while (stream->run_front()) {
        moved = true;
        ++ran;
      }
    }
  }
  return ran;
}

size_t SyntheticDevice::pending(const Stream& stream) const {
  const auto* own = dynamic_cast<const SyntheticStream*>(&stream);
  LW_CHECK(own != nullptr, "a stream of another device");
  return own->size();
}

// Each turn runs at most one piece of every stream, so that no stream gets far ahead of what is
// needed.
void SyntheticDevice::drive(const Completion& until) {
  const MutexLock crank(crank_mutex_);
  while (!until.is_complete()) {
    bool moved = false;
    std::vector<SyntheticStream*> order;
    {
      const MutexLock lock(streams_mutex_);
      order = streams_;
    }
    for (SyntheticStream* stream : order) {
      if (until.is_complete()) return;
      moved = stream->run_front() || moved;
    }
    LW_CHECK(moved, "work waits for what can never happen");
  }
}

void SyntheticDevice::add(SyntheticStream* stream) {
  const MutexLock lock(streams_mutex_);
  streams_.push_back(stream);
}

void SyntheticDevice::remove(SyntheticStream* stream) {
  const MutexLock crank(crank_mutex_);  // nobody is running it
  const MutexLock lock(streams_mutex_);
  std::erase(streams_, stream);
}

}  // namespace laneway::memory

// HostStream: a stream of the host device: one thread that runs an ordered queue of work. Several
// threads may enqueue, although the interface requires one at a time.
#pragma once

#include <deque>
#include <thread>

#include "base/mutex.h"
#include "memory/device/work_stream.h"

namespace laneway::memory {

class HostStream final : public WorkStream {
 public:
  HostStream(HostMemory& memory, CopyEngine& engine);
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  Status synchronize() override;

 private:
  Status enqueue(Work work) override;
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Work> queue_ LW_GUARDED_BY(mutex_);  // the thread runs the front one
  bool ending_ LW_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last member: starts when all others are constructed
};

}  // namespace laneway::memory

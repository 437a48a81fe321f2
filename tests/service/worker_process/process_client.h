// ProcessClient: somebody who submits to a ProcessJob through a ring. What waits, lets the rig do
// its part meanwhile. One thread, the rig's.
#pragma once

#include <span>
#include <vector>

#include "tests/service/worker_process/worker_rig.h"

namespace laneway::testing {

// A submitter of a job: a link with one segment of `blocks` blocks.
class ProcessClient {
 public:
  explicit ProcessClient(ProcessJob& job, uint32_t blocks = 8);

  using Handle = service::RingClient::Handle;

  // One iteration over `block`, all inputs filled with `value`.
  Handle submit(float value, uint32_t block = 0, uint32_t graph = 0);
  Handle submit(const service::RingClient::Request& request);
  Status wait(const Handle& handle);
  // submit and wait; the first output.
  Result<std::vector<float>> run(float value, uint32_t graph = 0);
  std::vector<float> output(uint32_t block = 0, uint32_t graph = 0) const;
  // All slots and, if asked for, the random state.
  Result<std::vector<std::byte>> read_state(std::vector<std::byte>* random = nullptr);
  Status write_state(std::span<const std::byte> slots, std::span<const std::byte> random = {});
  // The same without waiting for it.
  Handle begin_write(std::span<const std::byte> slots, std::span<const std::byte> random = {});
  void detach();
  // The broker holds nothing of it any more; a worker is told by not being told.
  void forget();
  service::RingClient& ring() { return *ring_; }
  std::byte* segment() { return segment_->data(); }

  static constexpr uint32_t kSegment = 7;

 private:
  uint64_t write_header(bool random);

  ProcessJob& job_;
  const uint32_t number_;
  std::unique_ptr<service::RingClient> ring_;
  memory::SharedMemory* segment_ = nullptr;
  uint64_t state_block_ = 0;
};

}  // namespace laneway::testing

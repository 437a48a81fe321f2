// ForwardingAllocator: torch's whole CUDA allocator interface, with every call passed on to another
// allocator: functions that CudaLaneAllocator does not override behave as before. As thread-safe as
// the other allocator.
//
// Most functions that newer versions of torch have in it do nothing by default: without one here,
// torch's own captures and snapshots would lose theirs without a word. A test compares this class
// with torch's header (tests/adaptor/allocator_overrides.py).
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace laneway::adaptor {

class ForwardingAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  // `base` must live as long as the process.
  explicit ForwardingAllocator(CUDAAllocator& base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override { return base_.allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return base_.raw_deleter(); }
  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return base_.is_simple_data_ptr(block);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    base_.copy_data(to, from, bytes);
  }

  bool initialized() override { return base_.initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { base_.emptyCache(pool); }
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    base_.recordStream(block, stream);
  }
  using CUDAAllocator::recordStream;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return base_.getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    base_.resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { base_.resetPeakStats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return base_.getMemoryInfo(device);
  }

  void* raw_alloc(size_t bytes) override { return base_.raw_alloc(bytes); }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return base_.raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* block) override { base_.raw_delete(block); }
  void init(int device_count) override { base_.init(device_count); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return base_.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    base_.setMemoryFraction(fraction, device);
  }
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return base_.getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { base_.enable(value); }
  bool isEnabled() const override { return base_.isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override {
    base_.cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* block, size_t* size) override {
    return base_.getBaseAllocation(block, size);
  }
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                                         bool include_traces) override {
    return base_.snapshot(pool, include_traces);
  }

  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    base_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    base_.endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    base_.releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return base_.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    base_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override {
    base_.setUseOnOOM(device, pool, use);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    base_.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return base_.checkPoolLiveAllocations(device, pool, expected);
  }

  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* block) override {
    return base_.shareIpcHandle(block);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return base_.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return base_.isHistoryEnabled(); }
  void recordHistory(bool enabled, c10::cuda::CUDACachingAllocator::CreateContextFn recorder,
                     size_t most_entries, c10::cuda::CUDACachingAllocator::RecordContext when,
                     bool clear, const std::vector<std::string>& skipped) override {
    base_.recordHistory(enabled, recorder, most_entries, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    base_.recordAnnotation(pairs);
  }
  void pushCompileContext(std::string& text) override { base_.pushCompileContext(text); }
  void popCompileContext() override { base_.popCompileContext(); }
  void setUserMetadata(const std::string& text) override { base_.setUserMetadata(text); }
  std::string getUserMetadata() override { return base_.getUserMetadata(); }
  void attachOutOfMemoryObserver(
      c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override {
    base_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(
      c10::cuda::CUDACachingAllocator::AllocatorTraceTracker tracker) override {
    base_.attachAllocatorTraceTracker(std::move(tracker));
  }

  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
    base_.enablePeerAccess(device, other);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          cudaStream_t stream, bool p2p) override {
    return base_.memcpyAsync(to, to_device, from, from_device, bytes, stream, p2p);
  }
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(
      c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return base_.getCheckpointState(device, pool);
  }
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override {
    return base_.setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return base_.name(); }

#if TORCH_VERSION_MINOR >= 12
  void attachOomRejectionObserver(
      c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override {
    base_.attachOomRejectionObserver(std::move(observer));
  }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* block) override {
    return base_.getContextForPointer(block);
  }
#endif
#if TORCH_VERSION_MINOR >= 13
  void markCaptureBegin(c10::DeviceIndex device) override { base_.markCaptureBegin(device); }
  void markCaptureEnd(c10::DeviceIndex device) override { base_.markCaptureEnd(device); }
  c10::DataPtr allocateWithAddress(size_t bytes, void* address) override {
    return base_.allocateWithAddress(bytes, address);
  }
#endif
#if TORCH_VERSION_MINOR >= 14
  bool supportsUserMetadata() override { return base_.supportsUserMetadata(); }
  void annotateMemory(const void* block, const std::string& text) override {
    base_.annotateMemory(block, text);
  }
#endif

 protected:
  CUDAAllocator& base_;
};

}  // namespace laneway::adaptor

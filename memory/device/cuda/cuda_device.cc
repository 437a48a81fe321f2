#include "memory/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "memory/device/cuda/cuda_event.h"

namespace laneway::memory {

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int ordinal) {
  const Result<const CudaDriver*> driver = CudaDriver::load();
  if (!driver.ok()) return driver.error();
  Result<std::unique_ptr<CudaContext>> opened = CudaContext::open(*driver.value(), ordinal);
  if (!opened.ok()) return opened.error();
  std::unique_ptr<CudaContext> context = std::move(opened).value();
  std::array<char, 256> name{};
  int sms = 0;
  CUresult result =
      driver.value()->cuDeviceGetName(name.data(), int(name.size()) - 1, context->device());
  if (result == CUDA_SUCCESS) {
    result = driver.value()->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                                  context->device());
  }
  CUstream own = nullptr;
  if (result == CUDA_SUCCESS) {
    const CudaContext::RelaxedScope scope(*context);
    result = driver.value()->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
  }
  if (result != CUDA_SUCCESS) return context->failure(result, "opening the device");
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(std::move(context), own, name.data(), static_cast<uint32_t>(sms)));
}

CudaDevice::CudaDevice(std::unique_ptr<CudaContext> context, CUstream own, std::string name,
                       uint32_t sm_count)
    : context_(std::move(context)),
      own_(own),
      name_(std::move(name)),
      sm_count_(sm_count),
      events_(*context_),
      memory_(*context_, context_->name() + " (" + name_ + ")", own) {
  capabilities_.name = context_->name();
  capabilities_.alignment = limits::kCudaAlignment;
  capabilities_.pool_is_addressable = false;
  capabilities_.pool_is_exportable = memory_.exportable().ok();
  capabilities_.full_queue_waits = true;
}

CudaDevice::~CudaDevice() {
  free_leaving(true);
  const CudaContext::RelaxedScope scope(*context_);
  context_->driver().cuStreamDestroy(own_);
}

Result<std::unique_ptr<MemoryBlock>> CudaDevice::allocate_pool(Bytes size) {
  free_leaving(false);
  auto made = memory_.allocate_pool(size);
  if (made.ok() || made.error().code != ErrorCode::out_of_memory) return made;
  free_leaving(true);
  return memory_.allocate_pool(size);
}

Result<std::unique_ptr<MemoryBlock>> CudaDevice::allocate_host(Bytes size) {
  free_leaving(false);
  return memory_.allocate_host(size);
}

Result<std::unique_ptr<MemoryBlock>> CudaDevice::pin(std::byte* memory, Bytes size) {
  return memory_.pin(memory, size);
}

Result<std::unique_ptr<MemoryBlock>> CudaDevice::attach_pool(int descriptor, Bytes size) {
  return memory_.attach_pool(descriptor, size);
}

Result<std::unique_ptr<Stream>> CudaDevice::create_stream() {
  Result<std::unique_ptr<CudaStream>> made = create_stream(nullptr);
  if (!made.ok()) return made.error();
  return std::unique_ptr<Stream>(std::move(made).value());
}

Result<std::unique_ptr<CudaStream>> CudaDevice::create_stream(const SmPartition* partition) {
  const CudaContext::RelaxedScope scope(*context_);
  CUstream stream = nullptr;
  const CUresult made = partition == nullptr
                            ? context_->driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)
                            : context_->driver().cuGreenCtxStreamCreate(
                                  &stream, partition->handle(), CU_STREAM_NON_BLOCKING, 0);
  if (made != CUDA_SUCCESS) return context_->failure(made, "making a stream");
  return std::make_unique<CudaStream>(memory_.pool_blocks(), events_, stream);
}

Result<std::unique_ptr<Event>> CudaDevice::create_event() {
  const Result<CUevent> event = events_.take();
  if (!event.ok()) return event.error();
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(events_, event.value()));
}

CUstream CudaDevice::native(Stream& stream) {
  const auto* own = dynamic_cast<const CudaStream*>(&stream);
  LW_CHECK(own != nullptr, "a stream of another kind of device");
  return own->native();
}

Result<std::vector<std::unique_ptr<SmPartition>>> CudaDevice::partition(uint32_t sms) {
  return SmPartition::split(*context_, sms);
}

void CudaDevice::free_on(std::unique_ptr<MemoryBlock> block, Stream& stream) {
  if (block == nullptr) return;
  memory_.retire(*block);
  Result<std::unique_ptr<Event>> done = create_event();
  if (!done.ok() || !stream.record(*done.value()).ok()) {
    [[maybe_unused]] const Status waited = stream.synchronize();
    return;
  }
  {
    const MutexLock lock(mutex_);
    leaving_.push_back({std::move(done).value(), std::move(block)});
  }
  free_leaving(false);
}

void CudaDevice::free_leaving(bool wait) {
  std::vector<Leaving> done;  // freed without the lock: the driver takes its time
  {
    const MutexLock lock(mutex_);
    const auto first =
        wait ? leaving_.begin()
             : std::stable_partition(leaving_.begin(), leaving_.end(), [](const Leaving& each) {
                 return each.done->query() == EventState::pending;
               });
    std::move(first, leaving_.end(), std::back_inserter(done));
    leaving_.erase(first, leaving_.end());
  }
  for (const Leaving& each : done) {
    if (wait) [[maybe_unused]]
      const Status waited = each.done->synchronize();
  }
}

Status CudaDevice::health() const {
  if (Status remembered = context_->health(); !remembered.ok()) return remembered;
  const CudaContext::RelaxedScope scope(*context_);
  const CUresult state = context_->driver().cuStreamQuery(own_);
  if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY) return {};
  Error error = context_->failure(state, "asking whether the device works");
  // Nothing is wrong with the question: a device that fell off its bus, for one, is not told apart
  // from what the driver does not know (CUDA_ERROR_UNKNOWN).
  error.code = ErrorCode::device_lost;
  return error;
}

}  // namespace laneway::memory

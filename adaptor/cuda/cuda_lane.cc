#include "adaptor/cuda/cuda_lane.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <utility>

#include "adaptor/cuda/cuda_lane_allocator.h"
#include "adaptor/cuda/cuda_numeric.h"
#include "adaptor/cuda/once_warnings.h"
#include "adaptor/scope/numeric_context.h"
#include "base/check.h"

namespace laneway::adaptor {

namespace {

// The device and its stream that torch uses on this thread; put back without a call of CUDA that
// could fail: torch's own guard throws out of its destructor once the device is lost.
class CurrentStream {
 public:
  explicit CurrentStream(c10::cuda::CUDAStream stream)
      : device_before_(c10::cuda::ExchangeDevice(stream.device_index())),
        device_(stream.device_index()),
        stream_before_(c10::cuda::getCurrentCUDAStream(device_)) {
    c10::cuda::setCurrentCUDAStream(stream);
  }
  ~CurrentStream() {
    c10::cuda::setCurrentCUDAStream(stream_before_);
    if (device_before_ == device_) return;
    try {
      c10::cuda::set_device(device_before_);
    } catch (const c10::Error&) {
      // Every further call of this thread says so.
    }
  }
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;

 private:
  const c10::DeviceIndex device_before_;
  const c10::DeviceIndex device_;
  const c10::cuda::CUDAStream stream_before_;
};

// A capture of the user's on another thread forbids this one what it forbids its own.
class OwnCapturesOnly {
 public:
  OwnCapturesOnly() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OwnCapturesOnly() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OwnCapturesOnly(const OwnCapturesOnly&) = delete;
  OwnCapturesOnly& operator=(const OwnCapturesOnly&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;  // the thread's, while we live
};

}  // namespace

// In the order in which it is entered.
struct CudaLane::Entered {
  explicit Entered(const lanes::NumericContext& context) { set_numeric(context); }

  void set_numeric(const lanes::NumericContext& context) {
    numeric.emplace(context);
    cuda_numeric.emplace();
  }
  void drop_numeric() {
    cuda_numeric.reset();
    numeric.reset();
  }

  std::optional<NumericScope> numeric;
  std::optional<CudaNumericScope> cuda_numeric;
  const OwnCapturesOnly captures;
  const c10::WarningUtils::WarningHandlerGuard warnings{&OnceWarnings::instance()};
  std::optional<CurrentStream> current;
  std::optional<CudaLaneBinding> binding;
};

CudaLane::CudaLane(memory::CudaDevice& device, c10::DeviceIndex index,
                   SmPartitions::Lease partition, std::unique_ptr<memory::CudaStream> stream,
                   KeptMemory& kept, const Clock& clock)
    : StreamLane(device, std::move(stream), clock),
      partition_(std::move(partition)),
      stream_(c10::cuda::getStreamFromExternal(memory::CudaDevice::native(this->stream()), index)),
      workspaces_(index, native(), kept) {}

// Its workspaces go with nothing enqueued.
CudaLane::~CudaLane() { [[maybe_unused]] const Status waited = drain(); }

void CudaLane::enter(memory::LaneArena& arena, const lanes::NumericContext& context) {
  LW_CHECK(entered_ == nullptr, "a lane is entered twice");
  accept();
  entered_ = std::make_unique<Entered>(context);
  try {
    entered_->current.emplace(stream_);
    workspaces_.prepare();
  } catch (const c10::OutOfMemoryError& error) {
    refuse({ErrorCode::out_of_memory, std::string("workspaces of cuBLAS for a lane's thread: ") +
                                          error.what_without_backtrace()});
  } catch (const std::exception& error) {
    refuse({ErrorCode::failed, std::string("entering a lane of the device: ") + error.what()});
  }
  entered_->binding.emplace(arena, stream_.device_index(), native());
}

void CudaLane::leave() {
  LW_CHECK(entered_ != nullptr, "a lane is left that nobody entered");
  entered_.reset();
}

void CudaLane::suspend() { entered_->drop_numeric(); }

void CudaLane::resume(const lanes::NumericContext& context) { entered_->set_numeric(context); }

uint64_t CudaLane::address_hash() const { return entered_->binding->address_hash(); }

}  // namespace laneway::adaptor

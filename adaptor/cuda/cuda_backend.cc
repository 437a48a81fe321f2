#include "adaptor/cuda/cuda_backend.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "adaptor/cuda/cuda_lane.h"
#include "adaptor/cuda/cuda_lane_allocator.h"

namespace laneway::adaptor {
namespace {

Error no_torch(const std::string& device, const std::string& why) {
  return Error{ErrorCode::unsupported, device + ": torch cannot use it: " + why};
}

// This library's calls of the CUDA runtime bind to the one that torch brings, which may be another
// than that of the headers here.
Status same_runtime(const std::string& device) {
  constexpr int kMajor = CUDART_VERSION / 1000;
  int there = 0;
  if (const cudaError_t failed = ::cudaRuntimeGetVersion(&there); failed != cudaSuccess) {
    return no_torch(device, std::string("no version of the runtime: ") + cudaGetErrorName(failed));
  }
  if (there / 1000 == kMajor) return {};
  return Error{ErrorCode::unsupported,
               device + ": this Laneway was built for CUDA " + std::to_string(kMajor) +
                   ", and torch here brings the runtime of CUDA " + std::to_string(there / 1000) +
                   "; install the build of torch for CUDA " + std::to_string(kMajor) +
                   ", or use the device host"};
}

// After the driver was asked, whose refusals say more.
Status wake_torch_cuda(uint32_t index) {
  const std::string device = "cuda:" + std::to_string(index);
  try {
    if (!at::globalContext().hasCUDA()) {
      return no_torch(device,
                      "its CUDA side was loaded after this process had used torch, or has no "
                      "device: open the device first, and look at torch.cuda.is_available()");
    }
    if (Status same = same_runtime(device); !same) return same;
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto count = static_cast<uint32_t>(static_cast<int>(c10::cuda::device_count()));
    if (index >= count) {
      return no_torch(device, "it sees " + std::to_string(count) + " devices");
    }
  } catch (const c10::Error& error) {
    return no_torch(device, error.what_without_backtrace());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> CudaBackend::open(uint32_t index, const BackendOptions& options) {
  Result<std::unique_ptr<memory::CudaDevice>> device =
      memory::CudaDevice::open(static_cast<int>(index));
  if (!device) return device.error();
  Result<std::unique_ptr<memory::StreamPoolAccess>> access =
      memory::StreamPoolAccess::create(*device.value());
  if (!access) return access.error();
  std::unique_ptr<SmPartitions> partitions;
  if (options.lane_sms != 0) {
    Result<std::unique_ptr<SmPartitions>> made =
        SmPartitions::make(*device.value(), options.lane_sms);
    if (!made) return made.error();
    partitions = std::move(made).value();
  }
  if (Status awake = wake_torch_cuda(index); !awake) return awake.error();
  install_cuda_lane_allocator();
  return std::unique_ptr<Backend>(new CudaBackend(
      index, std::move(device).value(), std::move(access).value(), std::move(partitions)));
}

CudaBackend::CudaBackend(uint32_t index, std::unique_ptr<memory::CudaDevice> device,
                         std::unique_ptr<memory::StreamPoolAccess> access,
                         std::unique_ptr<SmPartitions> partitions)
    : index_(static_cast<c10::DeviceIndex>(index)),
      device_(std::move(device)),
      access_(std::move(access)),
      partitions_(std::move(partitions)),
      torch_(*device_, index_, kept_) {}

Result<std::unique_ptr<DeviceLane>> CudaBackend::make_lane() {
  if (partitions_ == nullptr) return make_lane_in({});
  Result<SmPartitions::Lease> leased = partitions_->lease();
  if (!leased) return leased.error();
  return make_lane_in(std::move(leased).value());
}

Result<std::unique_ptr<DeviceLane>> CudaBackend::make_lane_in(SmPartitions::Lease lease) {
  Result<std::unique_ptr<memory::CudaStream>> stream = device_->create_stream(lease.partition());
  if (!stream) return stream.error();
  return std::unique_ptr<DeviceLane>(std::make_unique<CudaLane>(
      *device_, index_, std::move(lease), std::move(stream).value(), kept_, clock_));
}

Result<std::unique_ptr<memory::MemoryBlock>> CudaBackend::attach_pool(int descriptor, Bytes size) {
  return device_->attach_pool(descriptor, size);
}

size_t CudaBackend::escaped_within(const std::byte* base, Bytes size) {
  return cuda_blocks_escaped_within(base, size);
}

}  // namespace laneway::adaptor

#include "memory/device/cuda/device_mapping.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "memory/os/child_descriptors.h"

namespace laneway::memory {
namespace {

CUmemAllocationProp properties_on(const CudaContext& context) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;  // device memory that stays where it is
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context.device();
  return properties;
}

// The first of the driver's functions that is not there; null: all are.
const char* missing_entry(const CudaDriver& driver) {
  if (driver.cuMemGetAllocationGranularity == nullptr) return "cuMemGetAllocationGranularity";
  if (driver.cuMemAddressReserve == nullptr) return "cuMemAddressReserve";
  if (driver.cuMemAddressFree == nullptr) return "cuMemAddressFree";
  if (driver.cuMemCreate == nullptr) return "cuMemCreate";
  if (driver.cuMemRelease == nullptr) return "cuMemRelease";
  if (driver.cuMemMap == nullptr) return "cuMemMap";
  if (driver.cuMemUnmap == nullptr) return "cuMemUnmap";
  if (driver.cuMemSetAccess == nullptr) return "cuMemSetAccess";
  if (driver.cuMemExportToShareableHandle == nullptr) return "cuMemExportToShareableHandle";
  if (driver.cuMemImportFromShareableHandle == nullptr) return "cuMemImportFromShareableHandle";
  return nullptr;
}

Error no_ability(const CudaContext& context, const std::string& what) {
  return Error{ErrorCode::unsupported, "the driver of " + context.name() + " has no " + what};
}

bool has_attribute(const CudaContext& context, CUdevice_attribute attribute) {
  int value = 0;
  const CUresult asked = context.driver().cuDeviceGetAttribute(&value, attribute, context.device());
  return asked == CUDA_SUCCESS && value != 0;
}

// `size` in whole pages of the device's.
Result<size_t> rounded(const CudaContext& context, Bytes size) {
  const CUmemAllocationProp properties = properties_on(context);
  size_t granularity = 0;
  Status asked = context.check(context.driver().cuMemGetAllocationGranularity(
                                   &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                               "asking for the size of device pages");
  if (!asked.ok()) return asked.error();
  const auto bytes = static_cast<size_t>(size.count());
  return (bytes + granularity - 1) / granularity * granularity;
}

}  // namespace

class DeviceMapping::Physical {
 public:
  Physical(const CudaDriver& driver, CUmemGenericAllocationHandle handle)
      : driver_(driver), handle_(handle) {}
  ~Physical() { driver_.cuMemRelease(handle_); }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  const CudaDriver& driver_;
  const CUmemGenericAllocationHandle handle_;
};

Status DeviceMapping::possible(const CudaContext& context) {
  if (const char* const missing = missing_entry(context.driver()); missing != nullptr) {
    return no_ability(context, missing);
  }
  if (!has_attribute(context, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return no_ability(context, "virtual memory management");
  }
  if (!has_attribute(context, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    return no_ability(context, "descriptors of memory");
  }
  const Result<DeviceMapping> made = create(context, Bytes(1));
  if (!made.ok()) return made.error();
  const int second = ::fcntl(made.value().descriptor(), F_DUPFD_CLOEXEC, 0);
  if (second < 0) {
    return Error{ErrorCode::unsupported,
                 std::string("a second descriptor of memory: ") + std::strerror(errno)};
  }
  const Result<DeviceMapping> attached = attach(context, second, Bytes(1));
  if (!attached.ok()) return attached.error();
  return {};
}

Result<DeviceMapping> DeviceMapping::create(const CudaContext& context, Bytes size) {
  const CudaContext::RelaxedScope scope(context);
  const Result<size_t> bytes = rounded(context, size);
  if (!bytes.ok()) return bytes.error();
  const CUmemAllocationProp properties = properties_on(context);
  CUmemGenericAllocationHandle handle = 0;
  Status made = context.check(context.driver().cuMemCreate(&handle, bytes.value(), &properties, 0),
                              "allocating memory");
  if (!made.ok()) return made.error();
  const Physical physical(context.driver(), handle);
  int descriptor = -1;
  Status exported =
      context.check(context.driver().cuMemExportToShareableHandle(
                        &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    "exporting memory");
  if (!exported.ok()) return exported.error();
  return map(context, physical, bytes.value(), OwnedDescriptor(descriptor));
}

Result<DeviceMapping> DeviceMapping::attach(const CudaContext& context, int descriptor,
                                            Bytes size) {
  OwnedDescriptor owned(descriptor);
  if (size <= Bytes(0)) {
    return Error{ErrorCode::invalid_argument,
                 "a pool of " + format_bytes(size) + " cannot be attached"};
  }
  if (const char* const missing = missing_entry(context.driver()); missing != nullptr) {
    return no_ability(context, missing);
  }
  const CudaContext::RelaxedScope scope(context);
  const Result<size_t> bytes = rounded(context, size);
  if (!bytes.ok()) return bytes.error();
  CUmemGenericAllocationHandle handle = 0;
  // The descriptor itself goes where other kinds of handles pass their address.
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  const CUresult imported = context.driver().cuMemImportFromShareableHandle(
      &handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (imported != CUDA_SUCCESS) {
    Error error = context.failure(imported, "attaching descriptor " + std::to_string(descriptor) +
                                                " as memory of another process");
    if (error.code == ErrorCode::failed) error.code = ErrorCode::invalid_argument;
    return error;
  }
  const Physical physical(context.driver(), handle);
  return map(context, physical, bytes.value(), std::move(owned));
}

// What is done so far is undone by the destructor on every way out.
Result<DeviceMapping> DeviceMapping::map(const CudaContext& context, const Physical& physical,
                                         size_t bytes, OwnedDescriptor descriptor) {
  const CudaDriver& driver = context.driver();
  DeviceMapping mapping(context, std::move(descriptor));
  const int number = mapping.descriptor_.get();
  mapping.kept_from_children_ = close_in_children(number);
  if (!mapping.kept_from_children_ || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) {
    return Error{ErrorCode::invalid_argument, "descriptor " + std::to_string(number) +
                                                  " of device memory cannot be kept from children"};
  }
  CUdeviceptr address = 0;
  Status reserved =
      context.check(driver.cuMemAddressReserve(&address, bytes, 0, 0, 0), "reserving addresses");
  if (!reserved.ok()) return reserved.error();
  mapping.address_ = address;
  mapping.bytes_ = bytes;
  const CUresult mapped = driver.cuMemMap(address, bytes, 0, physical.handle(), 0);
  if (mapped == CUDA_ERROR_INVALID_VALUE) {
    return Error{ErrorCode::invalid_argument, "the memory behind the descriptor does not have " +
                                                  format_bytes(Bytes(int64_t(bytes))) + " on " +
                                                  context.name()};
  }
  if (mapped != CUDA_SUCCESS) return context.failure(mapped, "mapping memory");
  mapping.mapped_ = true;
  CUmemAccessDesc access{};
  access.location = properties_on(context).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Status allowed =
      context.check(driver.cuMemSetAccess(address, bytes, &access, 1), "opening memory");
  if (!allowed.ok()) return allowed.error();
  return mapping;
}

DeviceMapping::DeviceMapping(DeviceMapping&& other) noexcept
    : context_(other.context_),
      descriptor_(std::move(other.descriptor_)),
      kept_from_children_(std::exchange(other.kept_from_children_, false)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, false)) {}

DeviceMapping::~DeviceMapping() {
  if (kept_from_children_) forget_in_children(descriptor_.get());
  if (address_ == 0) return;
  const CudaContext::RelaxedScope scope(*context_);
  if (mapped_) context_->driver().cuMemUnmap(address_, bytes_);
  context_->driver().cuMemAddressFree(address_, bytes_);
}

}  // namespace laneway::memory

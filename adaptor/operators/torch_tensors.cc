#include "adaptor/operators/torch_tensors.h"

#include <ATen/TensorUtils.h>
#include <c10/core/TensorImpl.h>

#include <array>

#include "base/check.h"

namespace laneway::adaptor {
namespace {

const c10::Device kCpu{c10::DeviceType::CPU};

}  // namespace

at::Tensor strided_view(const c10::Storage& storage, c10::ScalarType type, at::IntArrayRef sizes,
                        at::IntArrayRef strides, int64_t offset) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(dispatch_key(storage.device())),
      c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

c10::ScalarType scalar_type(lanes::DType dtype) {
  static constexpr std::array<c10::ScalarType, lanes::kDTypeCount> kTypes = {
      c10::ScalarType::Bool,   c10::ScalarType::Byte,         c10::ScalarType::Char,
      c10::ScalarType::Short,  c10::ScalarType::Int,          c10::ScalarType::Long,
      c10::ScalarType::Half,   c10::ScalarType::BFloat16,     c10::ScalarType::Float,
      c10::ScalarType::Double, c10::ScalarType::ComplexFloat, c10::ScalarType::ComplexDouble};
  return kTypes.at(static_cast<size_t>(dtype));
}

c10::DispatchKey dispatch_key(c10::Device device) {
  return device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : tensor.to(kCpu); }

BorrowedStorage::BorrowedStorage(uint64_t bytes, c10::Device device)
    : storage_(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes),
               c10::DataPtr(nullptr, device), /*allocator=*/nullptr, /*resizable=*/false) {}

void BorrowedStorage::rebind(void* base) {
  storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(base, storage_.device()));
}

at::Tensor BorrowedStorage::view(const lanes::Value& value, uint64_t byte_offset) const {
  const auto element = static_cast<uint64_t>(lanes::dtype_bytes(value.dtype));
  LW_CHECK(byte_offset % element == 0, "a slot is aligned to its elements");
  return strided_view(storage_, scalar_type(value.dtype), value.sizes, value.strides,
                      value.storage_offset + static_cast<int64_t>(byte_offset / element));
}

at::Tensor contiguous_view(void* data, at::IntArrayRef sizes, c10::ScalarType type) {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  const auto bytes = static_cast<int64_t>(c10::elementSize(type)) * elements;
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(data, kCpu),
                             nullptr, false);
  return strided_view(storage, type, sizes, at::detail::defaultStrides(sizes), 0);
}

}  // namespace laneway::adaptor

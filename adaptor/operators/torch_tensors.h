// Tensors over memory that torch did not allocate: the slots of an image and the inputs of an
// iteration. No tensor holds an address of its own: each views a BorrowedStorage, whose base
// changes when the image is placed, moved or restored, or when an iteration gets its inputs. One
// thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/Storage.h>

#include <utility>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

c10::ScalarType scalar_type(lanes::DType dtype);

// The dispatch key of the kernels for tensors of `device`.
c10::DispatchKey dispatch_key(c10::Device device);

// A CPU tensor with the contents of `tensor`: `tensor` itself, or a copy; the copy waits for the
// device.
at::Tensor on_host(const at::Tensor& tensor);

// A storage of a fixed size over memory that it does not own. Its tensors follow every rebind; they
// must not be used while it is unbound. It has no copies, because a rebind of one would be one of
// all: jobs that run at the same time must never have the same one.
class BorrowedStorage {
 public:
  // Its tensors are on `device`.
  explicit BorrowedStorage(uint64_t bytes, c10::Device device = c10::DeviceType::CPU);
  BorrowedStorage(const BorrowedStorage&) = delete;
  BorrowedStorage& operator=(const BorrowedStorage&) = delete;
  BorrowedStorage(BorrowedStorage&&) = default;
  BorrowedStorage& operator=(BorrowedStorage&&) = default;
  ~BorrowedStorage() = default;

  // Another name for this one: what rebinds either rebinds both.
  BorrowedStorage alias() const { return BorrowedStorage(storage_); }
  void rebind(void* base);
  // A view with the value's dtype, sizes and strides, `byte_offset` bytes behind the value's own
  // offset.
  at::Tensor view(const lanes::Value& value, uint64_t byte_offset) const;
  uint64_t bytes() const { return storage_.nbytes(); }
  const void* base() const { return storage_.data(); }
  bool owns(const at::Tensor& tensor) const {
    return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
           storage_.unsafeGetStorageImpl();
  }

 private:
  explicit BorrowedStorage(c10::Storage storage) : storage_(std::move(storage)) {}

  c10::Storage storage_;
};

// A tensor over `storage`; `offset` in elements.
at::Tensor strided_view(const c10::Storage& storage, c10::ScalarType type, at::IntArrayRef sizes,
                        at::IntArrayRef strides, int64_t offset);

// A contiguous tensor over `data`, for copying an output out.
at::Tensor contiguous_view(void* data, at::IntArrayRef sizes, c10::ScalarType type);

}  // namespace laneway::adaptor

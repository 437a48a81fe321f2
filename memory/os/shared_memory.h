// SharedMemory: memory behind a descriptor (a sealed memfd) and its mapping here. Other processes
// map the same bytes from the descriptor; because it is sealed, no process can shrink it under a
// reader (which would kill the reader with SIGBUS) or grow it. Move-only owner of both; the bytes
// live until the last mapping and the last descriptor are gone. The object is not thread-safe; its
// users must order their accesses to the bytes.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace laneway::memory {

class SharedMemory {
 public:
  struct Options {
    // Whether every page is made present before create returns, instead of at its first use.
    bool prefault = false;
  };

  // Makes `size` bytes, all zero, page-aligned, sealed against shrinking, growing and unsealing.
  // `name` appears in /proc/PID/maps. Errors: invalid_argument for a size that is not positive,
  // out_of_memory when the machine has too little.
  static Result<SharedMemory> create(const std::string& name, Bytes size, Options options);
  static Result<SharedMemory> create(const std::string& name, Bytes size) {
    return create(name, size, Options());
  }
  // Maps memory that another process made. Takes ownership of the descriptor, also on failure.
  // Error invalid_argument unless the memory is sealed as create does it and has exactly `size`
  // bytes.
  static Result<SharedMemory> attach(int descriptor, Bytes size);

  // Makes the pages of that range present, those that are not; out_of_memory when the machine has
  // too little. Requires: the range is inside.
  Status make_present(Bytes at, Bytes bytes) const;
  // Children made by fork() get neither the mapping nor the descriptor: they can neither write the
  // bytes nor keep the memory in use, and fork() copies no page tables of it. A program that shares
  // the memory must be sent the descriptor. Error failed when the system refuses.
  Status keep_from_children();

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  // The descriptor that may be sent to another process; this object keeps owning it.
  int descriptor() const { return descriptor_; }

 private:
  SharedMemory(int descriptor, std::byte* data, Bytes size)
      : descriptor_(descriptor), data_(data), size_(size) {}

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  Bytes size_;
  bool kept_from_children_ = false;
};

}  // namespace laneway::memory

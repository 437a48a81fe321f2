#include "memory/os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "memory/os/child_descriptors.h"
#include "memory/os/owned_descriptor.h"

namespace laneway::memory {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What the system counts as the size of a file, and shared memory is one.
std::string limit_on_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "; ask for less";
  }
  return "; it counts as a file, and this process may make files of " +
         format_bytes(Bytes(static_cast<int64_t>(limit.rlim_cur))) +
         " at most (RLIMIT_FSIZE): raise that limit (ulimit -f unlimited) before the start";
}

Error failure(const std::string& name, Bytes size, const char* what) {
  const int number = errno;
  if (number == EFBIG) {
    return Error{ErrorCode::out_of_memory, "shared memory '" + name + "' of " + format_bytes(size) +
                                               ": " + what + " failed: " + std::strerror(number) +
                                               limit_on_files()};
  }
  const bool memory = number == ENOMEM || number == ENOSPC || number == EFAULT;
  return Error{memory ? ErrorCode::out_of_memory : ErrorCode::failed,
               "shared memory '" + name + "' of " + format_bytes(size) + ": " + what + " failed: " +
                   std::strerror(number) + (memory ? "; ask for less, or free memory first" : "")};
}

// Every page present; an error instead of the SIGBUS that a touch would give without memory.
bool prefault(std::byte* data, size_t size) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data, size, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));  // kernels before 5.14
  for (size_t at = 0; at < size; at += page) {
    const_cast<volatile std::byte*>(data)[at] = std::byte{0};
  }
  return true;
}

std::byte* map(int descriptor, Bytes size) {
  void* data = ::mmap(nullptr, static_cast<size_t>(size.count()), PROT_READ | PROT_WRITE,
                      MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, Bytes size, Options options) {
  if (size <= Bytes(0)) {
    return Error{ErrorCode::invalid_argument, "shared memory '" + name + "' of " +
                                                  format_bytes(size) +
                                                  ": the size must be at least one byte"};
  }
  OwnedDescriptor descriptor(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) return failure(name, size, "memfd_create");
  if (::ftruncate(descriptor.get(), size.count()) != 0) return failure(name, size, "ftruncate");
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) return failure(name, size, "sealing");
  std::byte* data = map(descriptor.get(), size);
  if (data == nullptr) return failure(name, size, "mmap");
  SharedMemory memory(descriptor.release(), data, size);
  if (options.prefault && !prefault(data, static_cast<size_t>(size.count()))) {
    return failure(name, size, "making its pages present");
  }
  return memory;
}

Result<SharedMemory> SharedMemory::attach(int descriptor, Bytes size) {
  OwnedDescriptor owned(descriptor);
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || ::fstat(descriptor, &status) != 0) {
    return Error{ErrorCode::invalid_argument, "descriptor " + std::to_string(descriptor) +
                                                  " is not shared memory that can be sealed"};
  }
  if ((seals & kSeals) != kSeals) {
    return Error{ErrorCode::invalid_argument,
                 "shared memory is not sealed against shrinking and growing: its owner could take "
                 "it away under us"};
  }
  if (size <= Bytes(0) || status.st_size != size.count()) {
    return Error{ErrorCode::invalid_argument,
                 "shared memory has " + std::to_string(status.st_size) + " bytes instead of " +
                     std::to_string(size.count())};
  }
  std::byte* data = map(descriptor, size);
  if (data == nullptr) return failure("attached", size, "mmap");
  return SharedMemory(owned.release(), data, size);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, Bytes(0))),
      kept_from_children_(std::exchange(other.kept_from_children_, false)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(kept_from_children_, other.kept_from_children_);
  return *this;
}

Status SharedMemory::make_present(Bytes at, Bytes bytes) const {
  if (bytes <= Bytes(0) || ::fallocate(descriptor_, 0, at.count(), bytes.count()) == 0) return {};
  return failure("to be made present", bytes, "fallocate");
}

Status SharedMemory::keep_from_children() {
  if (kept_from_children_) return {};
  if (::madvise(data_, static_cast<size_t>(size_.count()), MADV_DONTFORK) != 0) {
    return failure("kept from children", size_, "madvise");
  }
  if (!close_in_children(descriptor_)) {
    return Error{ErrorCode::out_of_memory,
                 "no memory for a handler of fork(), which shared memory needs to be kept from "
                 "children: free memory first"};
  }
  kept_from_children_ = true;
  return {};
}

SharedMemory::~SharedMemory() {
  if (kept_from_children_) forget_in_children(descriptor_);
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_.count()));
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace laneway::memory

#include "memory/os/spill_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace laneway::memory {
namespace {

Error failure(const std::string& folder, Bytes size, const char* what, int number) {
  const bool space = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return Error{space ? ErrorCode::out_of_memory : ErrorCode::invalid_argument,
               "a spill file of " + format_bytes(size) + " in '" + folder + "': " + what +
                   " failed: " + std::strerror(number) +
                   (space ? "; ask for less, or free room there first"
                          : "; give a folder on a local disk in which this user may write")};
}

}  // namespace

Result<SpillFile> SpillFile::create(const std::string& folder, Bytes size) {
  if (size <= Bytes(0)) {
    return Error{ErrorCode::invalid_argument, "a spill file of " + format_bytes(size) + " in '" +
                                                  folder + "': it has at least one byte"};
  }
  OwnedDescriptor made(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (made.get() < 0) return failure(folder, size, "open", errno);
  const int refused = ::posix_fallocate(made.get(), 0, size.count());
  if (refused != 0) return failure(folder, size, "reserving its space", refused);
  return SpillFile(std::move(made), size);
}

Result<SpillFile> SpillFile::attach(int descriptor, Bytes size) {
  OwnedDescriptor owned(descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < size.count() || size <= Bytes(0)) {
    return Error{ErrorCode::invalid_argument, "descriptor " + std::to_string(descriptor) +
                                                  " is no spill file of " + format_bytes(size)};
  }
  return SpillFile(std::move(owned), size);
}

Status SpillFile::inside(Bytes at, Bytes bytes) const {
  if (at >= Bytes(0) && bytes >= Bytes(0) && bytes <= size_ && at <= size_ - bytes) return {};
  return Error{ErrorCode::internal, "a range outside of the spill file of " + format_bytes(size_)};
}

Status SpillFile::write(Bytes at, const void* from, Bytes bytes) const {
  if (Status fits = inside(at, bytes); !fits) return fits;
  const auto* next = static_cast<const std::byte*>(from);
  int64_t offset = at.count();
  int64_t left = bytes.count();
  while (left > 0) {
    const ssize_t done =
        ::pwrite(descriptor_.get(), next, static_cast<size_t>(left), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      return Error{ErrorCode::failed, std::string("the spill file cannot be written: ") +
                                          std::strerror(done < 0 ? errno : ENOSPC)};
    }
    next += done;
    offset += done;
    left -= done;
  }
  return {};
}

Status SpillFile::read(Bytes at, void* to, Bytes bytes) const {
  if (Status fits = inside(at, bytes); !fits) return fits;
  auto* next = static_cast<std::byte*>(to);
  int64_t offset = at.count();
  int64_t left = bytes.count();
  while (left > 0) {
    const ssize_t done =
        ::pread(descriptor_.get(), next, static_cast<size_t>(left), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      return Error{ErrorCode::failed,
                   std::string("the spill file cannot be read: ") + std::strerror(errno)};
    }
    if (done == 0) return Error{ErrorCode::failed, "the spill file was cut short"};
    next += done;
    offset += done;
    left -= done;
  }
  return {};
}

}  // namespace laneway::memory

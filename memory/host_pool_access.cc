#include "memory/host_pool_access.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "memory/device/streaming_copy.h"

namespace laneway::memory {

void HostPoolAccess::confine_to(const void* base, Bytes size) {
  base_ = base;
  size_ = size;
}

Status HostPoolAccess::write(void* to_pool, const void* from, Bytes bytes) {
  if (Status inside = require_pool("write to the pool", to_pool, bytes); !inside) return inside;
  link_->copy(CopyDirection::to_device, to_pool, from, bytes);
  return {};
}

Status HostPoolAccess::read(void* to, const void* from_pool, Bytes bytes) {
  if (Status inside = require_pool("read from the pool", from_pool, bytes); !inside) return inside;
  link_->copy(CopyDirection::to_host, to, from_pool, bytes);
  return {};
}

Status HostPoolAccess::copy_within(void* to_pool, const void* from_pool, Bytes bytes) {
  for (const void* end : {static_cast<const void*>(to_pool), from_pool}) {
    if (Status inside = require_pool("copy within the pool", end, bytes); !inside) return inside;
  }
  streaming_copy(to_pool, from_pool, static_cast<size_t>(bytes.count()));
  return {};
}

Status HostPoolAccess::fill(void* to_pool, std::byte value, Bytes bytes) {
  if (Status inside = require_pool("fill of the pool", to_pool, bytes); !inside) return inside;
  if (bytes == Bytes(0)) return {};
  std::memset(to_pool, std::to_integer<int>(value), static_cast<size_t>(bytes.count()));
  return {};
}

bool HostPoolAccess::give_back(std::byte* in_pool, Bytes bytes) {
  if (!require_pool("giving back of the pool", in_pool, bytes)) return false;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(in_pool);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + static_cast<uintptr_t>(bytes.count())) / page * page;
  if (first >= end) return true;
  return ::madvise(in_pool + (first - begin), end - first, MADV_REMOVE) == 0;
}

Status HostPoolAccess::require_pool(const char* call, const void* address, Bytes bytes) const {
  bool inside = bytes >= Bytes(0);
  if (inside && base_ != nullptr) {
    const auto start = reinterpret_cast<uintptr_t>(address);
    const auto base = reinterpret_cast<uintptr_t>(base_);
    const auto into = static_cast<int64_t>(start - base);
    inside = start >= base && into <= size_.count() && bytes.count() <= size_.count() - into;
  }
  if (inside) return {};
  return Error{ErrorCode::invalid_argument,
               std::string(call) + ": " + std::to_string(bytes.count()) +
                   " bytes there are not inside the pool of " + format_bytes(size_)};
}

}  // namespace laneway::memory

#include "service/worker/images/default_pool.h"

#include "service/worker/common/limits.h"

namespace laneway::service {

Bytes default_pool(adaptor::Backend& backend) {
  const int64_t free = backend.free_memory().count();
  const bool shared_with_programs = backend.device().capabilities().pool_is_addressable;
  const int64_t wanted = shared_with_programs ? free / 2 : free / 100 * limits::kDevicePoolPercent;
  const int64_t alignment = backend.alignment();
  return Bytes(wanted / alignment * alignment);
}

}  // namespace laneway::service

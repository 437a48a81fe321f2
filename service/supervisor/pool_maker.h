// The pool that lanewayd serves. The host's is shared memory of its own. Of any other device
// lanewayd knows nothing: a worker is started that makes the pool, sends the descriptor that keeps
// it, and leaves before the workers come that serve it.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "service/transport/descriptor.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

struct MadePool {
  Descriptor
      descriptor;  // none: the platform cannot share it, and each active worker makes its own
  Bytes size;
  int64_t alignment = 0;
  std::string kernels;
};

// `size`: as choose_pool gave it.
Result<MadePool> make_host_pool(Bytes size);

// By the program `worker`, within `patience`. `config` names the device and
// the size (0: most of what is free). What the device refused, in its words: invalid_argument,
// unsupported or out_of_memory; else failed or timed_out.
Result<MadePool> make_device_pool(const std::string& worker, const wire::ServiceConfig& config,
                                  Duration patience);

}  // namespace laneway::service

// DescriptorStore: where the broker puts what must outlive it, under a key: a note and descriptors
// (the supervisor's table; in tests, one beside). Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "service/transport/descriptor.h"

namespace laneway::service {

class DescriptorStore {
 public:
  virtual ~DescriptorStore() = default;
  // Replaces what was held under the key; it then keeps its place in the order. On return it is
  // held, whatever happens to this process.
  virtual void hold(std::string key, std::vector<std::byte> note, std::vector<Descriptor> fds) = 0;
  // Nothing when it is not held.
  virtual void release(const std::string& key) = 0;
};

}  // namespace laneway::service

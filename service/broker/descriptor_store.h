// DescriptorStore: where the broker puts what must outlive it, under a key: a note and descriptors
// (the supervisor's table; in tests, one beside). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "service/transport/descriptor.h"

namespace laneway::service {

class DescriptorStore {
 public:
  virtual ~DescriptorStore() = default;
  // Replaces what was held under the key; it then keeps its place in the order. On return it is on
  // its way, whatever happens to this process; whether there was room for it is said later, under
  // the number that is returned: 1, 2, …
  virtual uint64_t hold(std::string key, std::vector<std::byte> note,
                        std::vector<Descriptor> fds) = 0;
  // Another note for what is held: its first `descriptors` stay. Needs no room.
  virtual uint64_t renote(std::string key, std::vector<std::byte> note, size_t descriptors) = 0;
  // Nothing when it is not held.
  virtual void release(const std::string& key) = 0;
};

}  // namespace laneway::service

// HeldTable: what a broker wants to find again after its death: under a key, a note (bytes that
// only brokers read) and open descriptors. In the order in which the keys were first held, which
// is the order in which a new broker gets them. Bounded by base/limits.h. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class HeldTable {
 public:
  struct Entry {
    std::string key;
    std::vector<uint8_t> note;
    std::vector<Descriptor> fds;
  };

  // Of all entries together, beside what base/limits.h says.
  explicit HeldTable(uint64_t most_descriptors = UINT64_MAX)
      : most_descriptors_(most_descriptors) {}

  // Holds `entry`; one of the same key is replaced and keeps its place. Error refused, with the
  // limit, when a bound is met; the table is then as before.
  Status hold(Entry entry);
  // Another note under `key`, of whose descriptors the first `descriptors` stay. Error as hold();
  // nothing happens when nothing is held under it.
  Status renote(const std::string& key, std::vector<uint8_t> note, uint32_t descriptors);
  // What was held under `key` is forgotten and closed. False: nothing was.
  bool release(const std::string& key);

  const std::list<Entry>& entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }  // keys and notes
  uint64_t descriptors() const { return descriptors_; }

 private:
  std::list<Entry> entries_;
  std::map<std::string, std::list<Entry>::iterator, std::less<>> places_;
  uint64_t bytes_ = 0;
  uint64_t descriptors_ = 0;
  const uint64_t most_descriptors_;
};

}  // namespace laneway::service

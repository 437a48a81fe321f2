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

  // Holds `entry`; one of the same key is replaced and keeps its place. Error refused, with the
  // limit, when a bound is met; the table is then as before.
  Status hold(Entry entry);
  // What was held under `key` is forgotten and closed. False: nothing was.
  bool release(const std::string& key);

  const std::list<Entry>& entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }  // keys and notes

 private:
  std::list<Entry> entries_;
  std::map<std::string, std::list<Entry>::iterator, std::less<>> places_;
  uint64_t bytes_ = 0;
};

}  // namespace laneway::service

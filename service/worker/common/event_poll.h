// EventPoll: waits for the edges of several eventfds, and for being woken. Descriptors may be added
// and removed by any thread while one waits. A descriptor that was written to before it was added
// gives one wake-up at once, so whoever wakes looks at what it waited for and not at why.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class EventPoll {
 public:
  static Result<std::unique_ptr<EventPoll>> make();

  // `key`, which is not 0, is what wait gives for its edges. The descriptor stays the caller's, who
  // removes it before closing it.
  Status add(int descriptor, uint64_t key);
  void remove(int descriptor);
  // Ends a wait; the next one if there is none now.
  void wake();
  // The keys that had an edge; may be none.
  std::vector<uint64_t> wait();
  // The same, for at most so long.
  std::vector<uint64_t> wait_for(Duration most);

 private:
  std::vector<uint64_t> take(int timeout_ms);

  EventPoll(Descriptor poll, Descriptor wake) : poll_(std::move(poll)), wake_(std::move(wake)) {}

  const Descriptor poll_;
  const Descriptor wake_;
};

}  // namespace laneway::service

// streaming_copy: a memcpy for large pieces whose bytes this processor will not read soon. It
// writes past the caches where the processor can: the memory behind the target is not read first,
// and what other threads have in the caches stays there.
#pragma once

#include <cstddef>

namespace laneway::memory {

// The ranges do not overlap. On return every byte is there for whoever hears of it by a lock or a
// release store.
void streaming_copy(void* to, const void* from, size_t bytes);

// The same for bytes that only this thread reads, or somebody who begins behind this thread's or
// this process's end: nothing waits until they are there. A release store behind it may be seen
// before them.
void unordered_streaming_copy(void* to, const void* from, size_t bytes);

}  // namespace laneway::memory

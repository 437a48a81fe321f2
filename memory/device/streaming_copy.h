// streaming_copy: a memcpy for large pieces whose bytes this processor will not read soon. It
// writes past the caches where the processor can: the memory behind the target is not read first,
// and what other threads have in the caches stays there.
#pragma once

#include <cstddef>

namespace laneway::memory {

// The ranges do not overlap. On return every byte is there for whoever hears of it by a lock or a
// release store.
void streaming_copy(void* to, const void* from, size_t bytes);

}  // namespace laneway::memory

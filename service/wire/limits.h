// Maxima of messages.
#pragma once

#include <cstdint>

namespace laneway::limits {

// The largest ones carry a million slots of a job, or the JSON of every job; graphs and
// tensors travel as descriptors.
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;
// The bytes that the broker reserves for a client that has not identified itself; some 300,000
// slots.
inline constexpr uint32_t kMaxRequestBytes = 16u << 20;
inline constexpr uint32_t kMaxWaitMs =
    1'000;  // of one WaitJob; for a longer wait the client sends another
// Notes of a worker that are not sent yet; it sends them when half of this number is there.
inline constexpr uint32_t kMaxIterationNotes = 4'096;

}  // namespace laneway::limits

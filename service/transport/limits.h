// Maxima of channels, lifelines and queues of messages.
#pragma once

#include <cstdint>

namespace laneway::limits {

// A frame of a channel between the service's processes carries a message; large contents travel as
// descriptors. A frame of this length is the report of a worker with every job at its limits.
inline constexpr uint32_t kMaxChannelFrameBytes = 64u << 20;
inline constexpr uint32_t kMaxFrameDescriptors =
    16;  // of one frame; a job with all its files needs 14
inline constexpr uint64_t kMaxChannelQueueBytes = 256ull << 20;  // not yet read by the other side
// A client's lifeline: descriptor messages with a short header. The queue bounds what the broker
// keeps for a client that does not read; beyond it the broker closes the lifeline.
inline constexpr uint32_t kMaxLifelineFrameBytes = 4u << 10;
inline constexpr uint32_t kMaxLifelineDescriptors = 14;  // a job's graph, bytes and files
inline constexpr uint64_t kMaxLifelineQueueBytes = 64u << 10;
inline constexpr int kMaxQueuedRequests = 4;  // of one client: one request and its repetitions
inline constexpr int kMaxQueuedReplies = 16;  // to one client that does not read

}  // namespace laneway::limits

// Frames as a policy's program writes them, put together by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugin/frames.h"

namespace laneway::plugin {

using FrameBytes = std::vector<std::byte>;

template <class Number>
void put(FrameBytes& bytes, Number number) {
  for (const std::byte byte : std::as_bytes(std::span(&number, 1))) bytes.push_back(byte);
}

// A frame of these fields.
template <class... Numbers>
FrameBytes frame(FrameType type, Numbers... fields) {
  FrameBytes bytes;
  put(bytes, static_cast<uint32_t>(1 + (sizeof(fields) + ... + 0)));
  put(bytes, static_cast<uint8_t>(type));
  (put(bytes, fields), ...);
  return bytes;
}

inline FrameBytes hello(uint32_t version = kVersion) {
  return frame(FrameType::said_hello, version);
}
inline FrameBytes rank(uint64_t job, double value, double slice_s = 0) {
  return frame(FrameType::said_rank, job, int64_t{0}, int64_t{0}, value, 0.0, 0.0, slice_s);
}
inline FrameBytes done(uint64_t number) { return frame(FrameType::said_done, number); }
inline FrameBytes wake_at(double time_s) {
  return frame(FrameType::said_wake_at, uint8_t{1}, time_s);
}

}  // namespace laneway::plugin

#include "tests/fake_cuda/copies.h"

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace laneway::fake_cuda {
namespace {

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

std::string hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

const char* name_of(Place place) {
  switch (place) {
    case Place::device: return "device";
    case Place::pinned: return "pinned";
    case Place::pageable: return "pageable";
  }
  return "?";
}

Place place_of(const Gpu& gpu, const void* pointer, size_t bytes) {
  if (gpu.memory.owns(address_of(pointer))) return Place::device;
  return gpu.pinned.holds(pointer, bytes) ? Place::pinned : Place::pageable;
}

// Where the fake's own thread finds one end at the copy's turn; null when it is no longer there.
char* reach(const Gpu& gpu, Place place, void* pointer, size_t bytes) {
  if (place == Place::device) return gpu.memory.bytes(address_of(pointer), bytes);
  if (place == Place::pinned && !gpu.pinned.holds(pointer, bytes)) return nullptr;
  return static_cast<char*>(pointer);
}

CUresult carry_out(Gpu& gpu, const Copy& copy, Place to_place, Place from_place) {
  char* to = reach(gpu, to_place, copy.to, copy.bytes);
  char* from = reach(gpu, from_place, const_cast<void*>(copy.from), copy.bytes);
  if (to == nullptr || from == nullptr) {
    gpu.journal.complain(copy.call + ": at its turn, " + std::to_string(copy.bytes) + " bytes at " +
                         hex(to == nullptr ? copy.to : copy.from) +
                         " are no longer mapped or pinned");
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  std::memmove(to, from, copy.bytes);
  return CUDA_SUCCESS;
}

bool mapped(const Gpu& gpu, Place place, const void* pointer, size_t bytes) {
  return place != Place::device || gpu.memory.bytes(address_of(pointer), bytes) != nullptr;
}

}  // namespace

CUresult submit_copy(Gpu& gpu, const std::shared_ptr<Stream>& stream, const Copy& copy) {
  if (copy.bytes == 0) return CUDA_SUCCESS;
  const Place to = place_of(gpu, copy.to, copy.bytes);
  const Place from = place_of(gpu, copy.from, copy.bytes);
  for (const auto& [place, pointer] :
       {std::pair(to, static_cast<const void*>(copy.to)), std::pair(from, copy.from)}) {
    if (mapped(gpu, place, pointer, copy.bytes)) continue;
    return gpu.refuse(CUDA_ERROR_INVALID_VALUE, copy.call + ": " + std::to_string(copy.bytes) +
                                                    " bytes at " + hex(pointer) +
                                                    " are not mapped");
  }
  const bool waits = to == Place::pageable;
  Step step;
  step.what =
      copy.call + " " + std::to_string(copy.bytes) + " " + name_of(from) + " to " + name_of(to);
  step.copied_to = copy.to;
  step.copied_from = copy.from;
  if (waits && stream->capture != nullptr) {
    // A graph copies to pageable memory when it is launched; nobody waits for it there.
    step.run = [&gpu, copy, to, from] { return carry_out(gpu, copy, to, from); };
    return gpu.submit(stream, std::move(step));
  }
  if (from == Place::pageable && to != Place::pageable && stream->capture == nullptr) {
    auto staged = std::make_shared<std::vector<char>>(copy.bytes);
    std::memcpy(staged->data(), copy.from, copy.bytes);
    step.run = [&gpu, copy, to, staged] {
      Copy late = copy;
      late.from = staged->data();
      return carry_out(gpu, late, to, Place::pageable);
    };
  } else {
    step.run = [&gpu, copy, to, from] { return carry_out(gpu, copy, to, from); };
  }
  const CUresult result = gpu.submit(stream, std::move(step));
  return waits && result == CUDA_SUCCESS ? gpu.synchronize(stream) : result;
}

CUresult submit_fill(Gpu& gpu, const std::shared_ptr<Stream>& stream, const Fill& fill) {
  const size_t bytes = fill.width * fill.count;
  if (bytes == 0) return CUDA_SUCCESS;
  if (gpu.memory.bytes(fill.to, bytes) == nullptr || fill.to % fill.width != 0) {
    return gpu.refuse(CUDA_ERROR_INVALID_VALUE, fill.call + ": " + std::to_string(bytes) +
                                                    " bytes at " +
                                                    hex(reinterpret_cast<void*>(fill.to)) +
                                                    " are not mapped, or not aligned");
  }
  Step step;
  step.what = fill.call + " " + std::to_string(bytes);
  step.run = [&gpu, fill, bytes] {
    char* to = gpu.memory.bytes(fill.to, bytes);
    if (to == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (fill.width == 1) {
      std::memset(to, static_cast<int>(fill.value), bytes);
    } else {
      for (size_t at = 0; at < bytes; at += fill.width) {
        std::memcpy(to + at, &fill.value, fill.width);
      }
    }
    return CUDA_SUCCESS;
  };
  return gpu.submit(stream, std::move(step));
}

}  // namespace laneway::fake_cuda

#include "memory/device/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace laneway::memory {

#if defined(__x86_64__)

void unordered_streaming_copy(void* to, const void* from, size_t bytes) {
  constexpr size_t kWord = sizeof(__m128i);
  constexpr size_t kLine = 4 * kWord;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(target, source, head);
  target += head;
  source += head;
  const size_t body = (bytes - head) / kLine * kLine;
  for (size_t at = 0; at < body; at += kLine) {
    const auto* const in = reinterpret_cast<const __m128i*>(source + at);
    auto* const out = reinterpret_cast<__m128i*>(target + at);
    const __m128i first = _mm_loadu_si128(in);
    const __m128i second = _mm_loadu_si128(in + 1);
    const __m128i third = _mm_loadu_si128(in + 2);
    const __m128i fourth = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
  }
  std::memcpy(target + body, source + body, bytes - head - body);
}

void streaming_copy(void* to, const void* from, size_t bytes) {
  unordered_streaming_copy(to, from, bytes);
  _mm_sfence();  // such stores are ordered by nothing else
}

#else

void unordered_streaming_copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void streaming_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace laneway::memory

// The controls (fake_cuda.h). They lock as the API does, but ask for nothing.
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/gpu.h"

using laneway::MutexLock;
using laneway::fake_cuda::Gpu;

namespace {

template <typename Body>
auto control(Body body) {
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  return body(gpu);
}

int hold_stream(void* handle, int change) {
  return control([&](Gpu& gpu) {
    const auto stream = gpu.stream(static_cast<CUstream>(handle), "hold");
    if (stream == nullptr) return 0;
    stream->holds += change;
    gpu.executor.wake();
    return 1;
  });
}

size_t copy_text(const std::string& text, char* to, size_t bytes) {
  if (bytes > 0) {
    const size_t copied = std::min(text.size(), bytes - 1);
    std::memcpy(to, text.data(), copied);
    to[copied] = '\0';
  }
  return text.size();
}

}  // namespace

extern "C" {

void fake_cuda_hold() {
  control([](Gpu& gpu) { gpu.executor.hold(1); });
}
void fake_cuda_release() {
  control([](Gpu& gpu) {
    gpu.executor.hold(-1);
    gpu.executor.wake();
  });
}
int fake_cuda_hold_stream(void* stream) { return hold_stream(stream, 1); }
int fake_cuda_release_stream(void* stream) { return hold_stream(stream, -1); }

size_t fake_cuda_pending() {
  return control([](Gpu& gpu) { return gpu.executor.pending(); });
}

void fake_cuda_fail(int error) {
  control([&](Gpu& gpu) { gpu.fail(static_cast<CUresult>(error)); });
}

int fake_cuda_fail_in_stream(void* handle, int error) {
  return control([&](Gpu& gpu) {
    const auto stream = gpu.stream(static_cast<CUstream>(handle), "fail in stream");
    if (stream == nullptr) return 0;
    gpu.submit(stream, {"injected failure", [=] { return static_cast<CUresult>(error); }, {}});
    return 1;
  });
}

void fake_cuda_fail_calls(const char* name, int error, int times) {
  control([&](Gpu& gpu) { gpu.failing_calls[name] = {static_cast<CUresult>(error), times}; });
}

void fake_cuda_fail_kernel(const char* part, int error) {
  control([&](Gpu& gpu) { gpu.failing_kernel = {part, static_cast<CUresult>(error)}; });
}

void fake_cuda_spoil_captures(int nodes, int times) {
  control([&](Gpu& gpu) {
    gpu.spoiled_at = static_cast<size_t>(nodes);
    gpu.captures_to_spoil = times;
  });
}

int fake_cuda_forbid(const char* ability, int forbidden) {
  return control([&](Gpu& gpu) {
    bool* const flag = gpu.settings.ability(ability);
    if (flag != nullptr) *flag = forbidden == 0;
    return flag != nullptr ? 1 : 0;
  });
}

size_t fake_cuda_count(const char* name) {
  return control([&](Gpu& gpu) { return gpu.journal.count(name); });
}
void fake_cuda_reset_counts() {
  control([](Gpu& gpu) { gpu.journal.reset_counts(); });
}

size_t fake_cuda_live(const char* what) {
  const std::string kind = what;
  return control([&](Gpu& gpu) -> size_t {
    if (kind == "contexts") return gpu.contexts.count();
    if (kind == "green") return gpu.contexts.green_count();
    if (kind == "streams") return gpu.streams.size();
    if (kind == "events") return gpu.events.size();
    if (kind == "memory") return gpu.memory.mappings();
    if (kind == "physical") return gpu.memory.handles();
    if (kind == "reservations") return gpu.memory.reservations();
    if (kind == "graphs") return gpu.graphs.size();
    if (kind == "executables") return gpu.executables.size();
    if (kind == "pinned") return gpu.pinned.count();
    gpu.journal.complain("fake_cuda_live: nothing is called " + kind);
    return 0;
  });
}

size_t fake_cuda_used() {
  return control([](Gpu& gpu) { return gpu.memory.used(); });
}

void fake_cuda_note(int on) {
  control([&](Gpu& gpu) { gpu.journal.set_noting(on != 0); });
}
size_t fake_cuda_notes(char* text, size_t bytes) {
  return control([&](Gpu& gpu) { return copy_text(gpu.journal.take_notes(), text, bytes); });
}
size_t fake_cuda_complaints(char* text, size_t bytes) {
  return control([&](Gpu& gpu) { return copy_text(gpu.journal.complaints(), text, bytes); });
}

int fake_cuda_peek(void* to, uint64_t address, size_t bytes) {
  return control([&](Gpu& gpu) {
    const char* from = gpu.memory.bytes(address, bytes);
    if (from != nullptr) std::memcpy(to, from, bytes);
    return from != nullptr ? 1 : 0;
  });
}
int fake_cuda_poke(uint64_t address, const void* from, size_t bytes) {
  return control([&](Gpu& gpu) {
    char* const to = gpu.memory.bytes(address, bytes);
    if (to != nullptr) std::memcpy(to, from, bytes);
    return to != nullptr ? 1 : 0;
  });
}

}  // extern "C"

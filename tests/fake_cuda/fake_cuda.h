// Controls of the fake CUDA, exported by its libcuda.so.1 beside the driver API (C, so that a test
// in Python finds them with ctypes). All may be called from any thread, before cuInit too, and they
// work while everything else fails. What environment variables set is in the README.
#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): C
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): C

#ifdef __cplusplus
extern "C" {
#endif

// While held, no stream begins its next piece of work. Counted: as many releases as holds.
void fake_cuda_hold(void);
void fake_cuda_release(void);
// The same for one stream (a CUstream); false when there is no such stream.
int fake_cuda_hold_stream(void* stream);
int fake_cuda_release_stream(void* stream);
// Pieces of work in all streams that are not done.
size_t fake_cuda_pending(void);

// From now on every call answers the CUresult `error`, and queued work is dropped: what a device
// assert (710) leaves behind. 0 makes the device whole again, which no real one would be.
void fake_cuda_fail(int error);
// Work that fails the device in this way when its turn comes in `stream`; false: no such stream.
int fake_cuda_fail_in_stream(void* stream, int error);
// The next `times` calls of the function `name` (as cuGetProcAddress knows it) answer `error` and
// do nothing; the device stays whole.
void fake_cuda_fail_calls(const char* name, int error, int times);
// The next kernel, or call of a library, with this part of a name in its own loses the device when
// its turn comes, with the CUresult `error`.
void fake_cuda_fail_kernel(const char* part_of_name, int error);
// The next `times` captures are spoiled when they have `nodes` nodes, as by another thread that
// waits for the whole device at that moment.
void fake_cuda_spoil_captures(int nodes, int times);
// Takes an ability away (or gives it back): "device", "vmm", "fd", "green", "replay". False:
// unknown.
int fake_cuda_forbid(const char* ability, int forbidden);

// How often the function was called, how often the kernel was launched ("kernel:" and a part of its
// name), or how often a complaint was made ("complaints").
size_t fake_cuda_count(const char* name);
void fake_cuda_reset_counts(void);
// What is alive: "contexts", "streams", "events", "memory" (mapped or allocated ranges),
// "physical", "reservations", "pinned", "green", "graphs", "executables".
size_t fake_cuda_live(const char* what);
// Bytes of device memory in use.
size_t fake_cuda_used(void);
// From now on calls and executed work are noted, a line each ("call NAME", "run WHAT stream N").
void fake_cuda_note(int on);
// Copies the notes (and, apart, the complaints) so far as text, cut to `bytes` with the final zero;
// returns the whole length without it. `notes` empties them.
size_t fake_cuda_notes(char* text, size_t bytes);
size_t fake_cuda_complaints(char* text, size_t bytes);

// Device memory without any stream: what is there now. False when the range is not mapped.
int fake_cuda_peek(void* to, uint64_t device_address, size_t bytes);
int fake_cuda_poke(uint64_t device_address, const void* from, size_t bytes);

#ifdef __cplusplus
}
#endif

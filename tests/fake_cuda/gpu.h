// Gpu: the one fake device of the process: its memory, contexts, streams and events, and how every
// function of the APIs enters it. Never destroyed: the executor's thread works until the process
// ends. Everything public but the mutex is guarded by the mutex.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/contexts.h"
#include "tests/fake_cuda/device_memory.h"
#include "tests/fake_cuda/executor.h"
#include "tests/fake_cuda/handle_table.h"
#include "tests/fake_cuda/journal.h"
#include "tests/fake_cuda/pinned_memory.h"
#include "tests/fake_cuda/settings.h"
#include "tests/fake_cuda/stream.h"

namespace laneway::fake_cuda {

class Gpu {
 public:
  static Gpu& get();
  // In a child of fork() whose parent had used CUDA nothing works any more, the mutex neither.
  static bool lost_by_fork();

  // What a function needs before it may do anything.
  enum class Needs : uint8_t {
    nothing,
    initialized,  // cuInit was called: what does not touch the device answers also when it is lost
    whole,        // and the device is not lost
    context,      // and this thread has a current context
  };
  // Counts the call; the error that answers it at once, or success.
  CUresult enter(const char* name, Needs needs);

  // The stream behind a handle; 0, CU_STREAM_LEGACY: the context's own. Null, with a complaint, for
  // a handle that is none.
  std::shared_ptr<Stream> stream(CUstream handle, const char* call);
  std::shared_ptr<Event> event(CUevent handle, const char* call);

  // Of calls that may wait for the device, or look whether it is done: success, unless a capture
  // forbids them to this thread; then it is spoiled.
  CUresult may_wait(const char* call);
  // The same of one stream or event: not while it is captured.
  CUresult may_wait(const char* call, const Stream& stream);
  CUresult may_wait(const char* call, const Event& event);
  // The same of the whole device: while any of its streams is captured, whoever waits and in
  // whatever mode, and all captures are spoiled.
  CUresult may_wait_for_all(const char* call);

  // Puts one step at the end of the stream: into its queue, or into the capture it takes part in.
  CUresult submit(const std::shared_ptr<Stream>& stream, Step step);
  // The same for the parts of one launch; never into a capture.
  std::shared_ptr<Mark> enqueue(const std::shared_ptr<Stream>& stream,
                                std::vector<std::shared_ptr<const Step>> steps,
                                std::vector<std::shared_ptr<Mark>> after);
  // Returns when all work of the stream, or of every stream, is over; the device's error then.
  CUresult synchronize(const std::shared_ptr<Stream>& stream);
  CUresult synchronize_all();

  // The device is lost with this error; 0 mends it.
  void fail(CUresult error);
  // Complains and answers `error`.
  CUresult refuse(CUresult error, const std::string& why);
  // Everything that belonged to the primary context is gone with it.
  void forget_all();

  Mutex mutex;
  Settings settings = Settings::from_environment();
  Journal journal{settings};
  DeviceMemory memory{settings.memory_bytes, settings.fill};
  PinnedMemory pinned;
  Contexts contexts;
  HandleTable<CUstream, Stream> streams{0x300000};
  HandleTable<CUevent, Event> events{0x400000};
  HandleTable<CUgraph, Graph> graphs{0x600000};
  HandleTable<CUgraphExec, Executable> executables{0x800000};
  Executor executor;
  std::map<std::string, std::pair<CUresult, int>> failing_calls;  // error, how often still
  // Captures that are still to be spoiled, each when it has so many nodes
  // (fake_cuda_spoil_captures).
  int captures_to_spoil = 0;
  size_t spoiled_at = 0;
  // A part of a kernel's name, and what its next run answers; success: nothing.
  std::pair<std::string, CUresult> failing_kernel{"", CUDA_SUCCESS};
  CUresult lasting = CUDA_SUCCESS;
  bool initialized = false;
  uint64_t next_stream_id = 8;
  uint64_t next_capture_id = 1;

 private:
  Gpu();

  void begins(const Step& step, const Stream& stream);

  // Success, unless a blocking stream is captured: then the legacy stream must be left alone, and
  // the captures are spoiled.
  CUresult may_use_legacy(const std::string& call);
  // The captures of all streams, each once.
  std::vector<std::shared_ptr<Capture>> captures() const;

  std::shared_ptr<Stream> legacy_ = std::make_shared<Stream>();
  int64_t begun_ = 0;
};

// How a function of the driver API is written: `body(Gpu&)`, with the mutex held, answers it.
template <typename Body>
CUresult call(const char* name, Gpu::Needs needs, Body body) {
  if (Gpu::lost_by_fork()) return CUDA_ERROR_NOT_INITIALIZED;
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  const CUresult refused = gpu.enter(name, needs);
  return refused == CUDA_SUCCESS ? body(gpu) : refused;
}

template <typename Body>
CUresult call(const char* name, Body body) {
  return call(name, Gpu::Needs::context, std::move(body));
}

}  // namespace laneway::fake_cuda

#include "tests/fake_cuda/gpu.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

namespace laneway::fake_cuda {
namespace {

// Set in a child of fork() whose parent had initialised CUDA: there the device is out of reach.
std::atomic<bool> initialized_before_fork{false};
std::atomic<bool> forked{false};

}  // namespace

Gpu& Gpu::get() {
  static Gpu* const gpu = new Gpu;
  return *gpu;
}

Gpu::Gpu()
    : executor(
          mutex, settings,
          {[this](const Step& step, const Stream& stream) { begins(step, stream); },
           [this](CUresult error, const Step& step) {
             journal.complain(step.what + " failed the device with error " + std::to_string(error));
             fail(error);
           }}) {
  pthread_atfork(nullptr, nullptr, [] { forked = initialized_before_fork.load(); });
}

bool Gpu::lost_by_fork() { return forked; }

CUresult Gpu::enter(const char* name, Needs needs) {
  journal.call(name);
  const auto failing = failing_calls.find(name);
  if (failing != failing_calls.end() && failing->second.second > 0) {
    --failing->second.second;
    return failing->second.first;
  }
  if (needs == Needs::nothing) return CUDA_SUCCESS;
  if (!initialized) {
    return refuse(CUDA_ERROR_NOT_INITIALIZED, std::string(name) + ": cuInit was not called");
  }
  initialized_before_fork = true;
  if (needs == Needs::initialized) return CUDA_SUCCESS;
  if (lasting != CUDA_SUCCESS) return lasting;
  if (needs == Needs::context && contexts.current() == nullptr) {
    return refuse(CUDA_ERROR_INVALID_CONTEXT,
                  std::string(name) + ": this thread has no current context");
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Gpu::stream(CUstream handle, const char* call) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return legacy_;
  std::shared_ptr<Stream> found = streams.find(handle);
  if (found == nullptr) journal.complain(std::string(call) + ": not a live stream");
  return found;
}

std::shared_ptr<Event> Gpu::event(CUevent handle, const char* call) {
  std::shared_ptr<Event> found = events.find(handle);
  if (found == nullptr) journal.complain(std::string(call) + ": not a live event");
  return found;
}

CUresult Gpu::may_wait(const char* call) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : captures()) {
    if (!capture->forbids_waiting()) continue;
    capture->spoil();
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result == CUDA_SUCCESS ? result : refuse(result, std::string(call) + ": during a capture");
}

CUresult Gpu::may_wait_for_all(const char* call) {
  const auto spoiled = captures();
  if (spoiled.empty()) return CUDA_SUCCESS;
  for (const auto& capture : spoiled) capture->spoil();
  return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                std::string(call) + ": while a stream of the device is captured");
}

CUresult Gpu::may_use_legacy(const std::string& call) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& [handle, other] : streams.all()) {
    if (!other->blocking() || other->capture == nullptr) continue;
    other->capture->spoil();
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (result == CUDA_SUCCESS) return result;
  return refuse(result, call + " in the legacy stream while a blocking stream is captured");
}

CUresult Gpu::may_wait(const char* call, const Stream& stream) {
  if (&stream == legacy_.get()) {
    const CUresult refused = may_use_legacy(call);
    if (refused != CUDA_SUCCESS) return refused;
  }
  if (stream.capture == nullptr) return may_wait(call);
  stream.capture->spoil();
  return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                std::string(call) + ": the stream is being captured");
}

CUresult Gpu::may_wait(const char* call, const Event& event) {
  if (event.capture == nullptr) return may_wait(call);
  event.capture->spoil();
  return refuse(CUDA_ERROR_CAPTURED_EVENT,
                std::string(call) + ": the event was last recorded in a capture");
}

std::vector<std::shared_ptr<Capture>> Gpu::captures() const {
  std::vector<std::shared_ptr<Capture>> found;
  for (const auto& [handle, stream] : streams.all()) {
    const auto& capture = stream->capture;
    if (capture != nullptr && std::find(found.begin(), found.end(), capture) == found.end()) {
      found.push_back(capture);
    }
  }
  return found;
}

CUresult Gpu::submit(const std::shared_ptr<Stream>& stream, Step step) {
  auto kept = std::make_shared<const Step>(std::move(step));
  if (stream->capture != nullptr) {
    if (captures_to_spoil > 0 && stream->capture->recorded()->nodes.size() == spoiled_at) {
      --captures_to_spoil;
      stream->capture->spoil();
    }
    return stream->capture->add(*stream, std::move(kept));
  }
  if (stream == legacy_) {
    const CUresult refused = may_use_legacy(kept->what);
    if (refused != CUDA_SUCCESS) return refused;
  }
  enqueue(stream, {std::move(kept)}, {});
  return CUDA_SUCCESS;
}

std::shared_ptr<Mark> Gpu::enqueue(const std::shared_ptr<Stream>& stream,
                                   std::vector<std::shared_ptr<const Step>> steps,
                                   std::vector<std::shared_ptr<Mark>> after) {
  Work work;
  work.steps = std::move(steps);
  work.after = std::move(after);
  // The legacy stream and every blocking stream wait for each other.
  if (stream == legacy_) {
    for (const auto& [handle, other] : streams.all()) {
      if (other->blocking() && other->last != nullptr) work.after.push_back(other->last);
    }
  } else if (stream->blocking() && legacy_->last != nullptr) {
    work.after.push_back(legacy_->last);
  }
  const std::shared_ptr<Mark> mark = work.mark;
  executor.enqueue(stream, std::move(work));
  return mark;
}

CUresult Gpu::synchronize(const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Mark> last = stream->last;
  executor.wait(last);
  if (stream == legacy_) {
    std::vector<std::shared_ptr<Mark>> marks;
    for (const auto& [handle, other] : streams.all()) {
      if (other->blocking()) marks.push_back(other->last);
    }
    for (const auto& mark : marks) executor.wait(mark);
  }
  return lasting;
}

CUresult Gpu::synchronize_all() {
  std::vector<std::shared_ptr<Mark>> marks{legacy_->last};
  for (const auto& [handle, stream] : streams.all()) marks.push_back(stream->last);
  for (const auto& mark : marks) executor.wait(mark);
  return lasting;
}

void Gpu::fail(CUresult error) {
  lasting = error;
  executor.set_dead(error != CUDA_SUCCESS);
}

CUresult Gpu::refuse(CUresult error, const std::string& why) {
  journal.complain(why);
  return error;
}

void Gpu::forget_all() {
  streams.clear();
  events.clear();
  graphs.clear();
  executables.clear();
  memory.clear();
}

void Gpu::begins(const Step& step, const Stream& stream) {
  if (journal.noting()) journal.note("run " + step.what + " stream " + std::to_string(stream.id));
  if (begun_++ == settings.fault_after) {
    journal.complain(step.what + " is the work that was to fail");
    fail(static_cast<CUresult>(settings.fault_error));
  }
}

}  // namespace laneway::fake_cuda

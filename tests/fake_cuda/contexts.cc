#include "tests/fake_cuda/contexts.h"

namespace laneway::fake_cuda {
namespace {

// Nothing to destroy: libraries still call when the thread's objects are gone.
struct Stack {
  static constexpr size_t kMaxDepth = 64;
  CUcontext contexts[kMaxDepth];
  size_t depth;
};
thread_local Stack stack{};

}  // namespace

CUcontext Contexts::current() const {
  if (stack.depth == 0) return nullptr;
  const CUcontext top = stack.contexts[stack.depth - 1];
  return contexts_.find(top) == nullptr ? nullptr : top;
}

CUresult Contexts::set_current(CUcontext context) {
  if (context != nullptr && contexts_.find(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth > 0) --stack.depth;
  if (context != nullptr) stack.contexts[stack.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult Contexts::push(CUcontext context) {
  if (contexts_.find(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth == Stack::kMaxDepth) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.contexts[stack.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult Contexts::pop(CUcontext* context) {
  if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --stack.depth;
  if (context != nullptr) *context = stack.contexts[stack.depth];
  return CUDA_SUCCESS;
}

CUcontext Contexts::retain_primary() {
  if (primary_users_++ == 0) primary_ = make(nullptr);
  return primary_;
}

bool Contexts::release_primary(bool* last) {
  *last = false;
  if (primary_users_ == 0) return false;
  *last = --primary_users_ == 0;
  if (*last) destroy_primary();
  return true;
}

void Contexts::destroy_primary() {
  contexts_.take(primary_);
  primary_ = nullptr;
  primary_users_ = 0;
}

CUgreenCtx Contexts::add_green(unsigned sms) {
  auto made = std::make_shared<GreenContext>();
  made->sms = sms;
  const CUgreenCtx handle = greens_.add(made);
  made->context = make(handle);
  return handle;
}

bool Contexts::remove_green(CUgreenCtx green) {
  const std::shared_ptr<GreenContext> gone = greens_.take(green);
  if (gone == nullptr) return false;
  contexts_.take(gone->context);
  return true;
}

CUcontext Contexts::make(CUgreenCtx green) {
  auto made = std::make_shared<Context>();
  made->id = next_id_++;
  made->green = green;
  return contexts_.add(std::move(made));
}

}  // namespace laneway::fake_cuda

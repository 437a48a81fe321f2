#include "tests/fake_cuda/contexts.h"

namespace laneway::fake_cuda {
namespace {

std::vector<CUcontext>& stack() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

}  // namespace

CUcontext Contexts::current() const {
  const std::vector<CUcontext>& contexts = stack();
  if (contexts.empty() || contexts_.find(contexts.back()) == nullptr) return nullptr;
  return contexts.back();
}

CUresult Contexts::set_current(CUcontext context) {
  if (context != nullptr && contexts_.find(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUcontext>& contexts = stack();
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult Contexts::push(CUcontext context) {
  if (contexts_.find(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult Contexts::pop(CUcontext* context) {
  std::vector<CUcontext>& contexts = stack();
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = contexts.back();
  contexts.pop_back();
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

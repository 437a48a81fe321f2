// Contexts: the primary context of the fake device, green contexts, and each thread's stack of
// current ones. Guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <memory>

#include "tests/fake_cuda/handle_table.h"

namespace laneway::fake_cuda {

struct GreenContext {
  unsigned sms = 0;
  CUcontext context = nullptr;  // what cuCtxFromGreenCtx gives
};

struct Context {
  uint64_t id = 0;
  CUgreenCtx green = nullptr;  // null: the primary one
};

class Contexts {
 public:
  // The current one of this thread; null when there is none, or when it is gone.
  CUcontext current() const;
  CUresult set_current(CUcontext context);
  CUresult push(CUcontext context);
  CUresult pop(CUcontext* context);

  CUcontext retain_primary();
  // False when nobody has it. `last`: it is gone with this.
  bool release_primary(bool* last);
  void destroy_primary();
  CUcontext primary() const { return primary_; }
  unsigned primary_flags = 0;

  std::shared_ptr<Context> find(CUcontext context) const { return contexts_.find(context); }

  CUgreenCtx add_green(unsigned sms);
  bool remove_green(CUgreenCtx green);
  std::shared_ptr<GreenContext> green(CUgreenCtx green) const { return greens_.find(green); }

  size_t count() const { return contexts_.size(); }
  size_t green_count() const { return greens_.size(); }

 private:
  CUcontext make(CUgreenCtx green);

  HandleTable<CUcontext, Context> contexts_{0x100000};
  HandleTable<CUgreenCtx, GreenContext> greens_{0x200000};
  CUcontext primary_ = nullptr;
  int primary_users_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace laneway::fake_cuda

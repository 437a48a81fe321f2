// ForkGate: keeps lanes out of torch while the process forks. Torch, oneDNN and OpenMP have locks
// of their own; a child that is made while another thread holds one of them would hang in its first
// eager operator. So fork() waits until the running iterations (and loadings of graphs) have ended,
// and none begins before fork() has returned. The gate also keeps the hook of torch's allocator
// consistent for the child. Programs started by posix_spawn or vfork (Python's subprocess) wait for
// nothing.
#pragma once

namespace laneway::adaptor {

// A thread must hold a TorchUse while it is inside torch on behalf of a job. Requires: the thread
// holds no other one; else fork() would wait for the outer, and the inner for fork().
class TorchUse {
 public:
  TorchUse();
  ~TorchUse();
  TorchUse(const TorchUse&) = delete;
  TorchUse& operator=(const TorchUse&) = delete;
};

// Whether this thread is the only one that a fork() copied into this process: the threads that a
// library keeps for it are not here. The thread may have forked before this library was loaded:
// then the flags of the process tell, and the thread is the first one. Where /proc does not show
// them, such a fork is not known.
bool thread_has_forked();

}  // namespace laneway::adaptor

// ForkGate: no lane is inside torch while the process forks. Torch, oneDNN and OpenMP have locks of
// their own; a child that is made while another thread holds one of them would hang in its first
// eager operator. So fork() waits until the iterations (and loadings of graphs) that run have
// ended, and none begins before it is done. It also leaves the hook of torch's allocator whole for
// the child. Programs started by posix_spawn or vfork (Python's subprocess) wait for nothing.
#pragma once

namespace laneway::adaptor {

// This thread is inside torch on behalf of a job. Not one inside another on the same thread: fork
// would wait for the outer and the inner for fork.
class TorchUse {
 public:
  TorchUse();
  ~TorchUse();
  TorchUse(const TorchUse&) = delete;
  TorchUse& operator=(const TorchUse&) = delete;
};

// Whether this thread is the one that a fork() left of the parent's: threads that a library keeps
// for it are not in this process. Forks before the first TorchUse are not known.
bool thread_has_forked();

}  // namespace laneway::adaptor

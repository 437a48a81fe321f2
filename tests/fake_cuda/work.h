// Work, Mark and Step: what streams carry out. Plain data, guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace laneway::fake_cuda {

// Set once, when the work that it belongs to is over.
struct Mark {
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

// One action of the device: `run` holds the Gpu's mutex, `host` (a function of the user's) does
// not. What `run` answers becomes the device's lasting error unless it is success.
struct Step {
  std::string what;
  std::function<CUresult()> run;
  std::function<void()> host;
  const void* copied_to = nullptr;  // both ends, when it is a copy
  const void* copied_from = nullptr;
};

// A piece of a stream's queue: begins when everything in `after` is done.
struct Work {
  std::vector<std::shared_ptr<const Step>> steps;
  std::vector<std::shared_ptr<Mark>> after;
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();
  std::chrono::steady_clock::time_point not_before;
};

}  // namespace laneway::fake_cuda

// RandomState: a job's own generator. It starts as a copy of the client's default generator at the
// time when the step was made, and every operator that takes a generator gets it, so the process's
// default generator is never used. An iteration calls mark() at its start; rewind() restores that
// state. The job's device makes it (torch_device.h). One thread at a time.
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace laneway::adaptor {

class RandomState {
 public:
  virtual ~RandomState() = default;

  // Sets the state from the bytes of get() or of a client's torch.get_rng_state(). Any other bytes
  // give invalid_argument and leave the state unchanged.
  virtual Status set(std::span<const std::byte> state) = 0;
  virtual std::vector<std::byte> get() const = 0;

  virtual const at::Generator& generator() const = 0;
  virtual void mark() = 0;
  virtual void rewind() = 0;
};

}  // namespace laneway::adaptor

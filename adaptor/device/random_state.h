// RandomState: a job's own generator. It starts as a copy of the client's default generator when
// the step was made and is passed to every operator that takes a generator, so the process's
// default generator is never touched. An iteration marks it at its start; rewind takes it back.
// Made by the job's device (torch_device.h). One thread at a time.
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

  // What get() gave, or the bytes of torch.get_rng_state() of a client; invalid_argument, with the
  // state as it was, when they are neither.
  virtual Status set(std::span<const std::byte> state) = 0;
  virtual std::vector<std::byte> get() const = 0;

  virtual const at::Generator& generator() const = 0;
  virtual void mark() = 0;
  virtual void rewind() = 0;
};

}  // namespace laneway::adaptor

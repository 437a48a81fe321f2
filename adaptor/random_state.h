// RandomState: a job's own generator. It starts as a copy of the client's default generator when
// the step was made and is passed to every operator that takes a generator, so the process's
// default generator is never touched. An iteration marks it at its start; rewind takes it back.
// One thread at a time.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace laneway::adaptor {

class RandomState {
 public:
  // Seeded with torch's default seed until set.
  RandomState();

  // The bytes of torch.get_rng_state(); invalid_argument when torch refuses them.
  Status set(std::span<const std::byte> state);
  std::vector<std::byte> get() const;

  const at::Generator& generator() const { return generator_; }
  void mark();
  void rewind();

 private:
  struct Mark {
    at::mt19937 engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };

  at::CPUGeneratorImpl* implementation() const;

  at::Generator generator_;
  std::optional<Mark> mark_;
};

}  // namespace laneway::adaptor

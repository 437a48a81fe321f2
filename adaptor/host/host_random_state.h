// HostRandomState: the generator of a job that draws its random numbers on the CPU. Its state has
// the form of torch.get_rng_state(). One thread at a time.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

#include "adaptor/device/random_state.h"

namespace laneway::adaptor {

class HostRandomState final : public RandomState {
 public:
  // The generator has torch's default seed until set().
  HostRandomState();

  Status set(std::span<const std::byte> state) override;
  std::vector<std::byte> get() const override;
  const at::Generator& generator() const override { return generator_; }
  void mark() override;
  void rewind() override;

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

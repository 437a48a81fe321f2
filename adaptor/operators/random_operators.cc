#include "adaptor/operators/random_operators.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>

#include "adaptor/operators/torch_tensors.h"

namespace laneway::adaptor {
namespace {

// The resolver passes a generator always; the schema has it as every drawing operator of torch.
at::Generator& given(std::optional<at::Generator>& generator) {
  TORCH_CHECK(generator.has_value() && generator->defined(), "no generator was given");
  return *generator;
}

at::Tensor random_state(std::optional<at::Generator> generator, std::optional<at::Device> device) {
  at::Generator& from = given(generator);
  const std::lock_guard<std::mutex> lock(from.mutex());
  const at::Tensor state = from.get_state();
  return device ? state.to(*device) : state;
}

bool is_zero(const at::Tensor& state) {
  const std::span bytes(static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes());
  return !bytes.empty() &&
         std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

void restore_random_state(const at::Tensor& state, std::optional<at::Generator> generator) {
  at::Generator& to = given(generator);
  const at::Tensor here = on_host(state);
  // torch reads the state from where its storage begins; a slot lies anywhere in the image.
  const at::Tensor alone = here.storage_offset() == 0 ? here : here.clone();
  if (is_zero(alone)) return;
  const std::lock_guard<std::mutex> lock(to.mutex());
  to.set_state(alone);
}

}  // namespace

void register_random_operators() {
  static const torch::Library library = [] {
    torch::Library made(torch::Library::DEF, "laneway", std::nullopt, __FILE__, __LINE__);
    made.def("random_state(*, Generator? generator=None, Device? device=None) -> Tensor",
             &random_state);
    made.def("restore_random_state(Tensor state, *, Generator? generator=None) -> ()",
             &restore_random_state);
    return made;
  }();
}

}  // namespace laneway::adaptor

#include "adaptor/device/loaded_torch.h"

#include <caffe2/core/common.h>
#include <torch/headeronly/version.h>

namespace laneway::adaptor {

TorchVersions loaded_torch() {
  TorchVersions torch{.built = TORCH_VERSION, .running = {}};
  const auto& options = caffe2::GetBuildOptions();
  if (const auto found = options.find("TORCH_VERSION"); found != options.end()) {
    torch.running = found->second;
  }
  return torch;
}

}  // namespace laneway::adaptor

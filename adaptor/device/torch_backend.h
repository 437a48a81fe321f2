// TorchBackend: a Backend with jobs that LibTorch computes; graphs are loaded for its TorchDevice.
// Includes nothing of torch. Thread-safe, as every Backend.
#pragma once

#include "adaptor/device/backend.h"

namespace laneway::adaptor {

class TorchDevice;

class TorchBackend : public Backend {
 public:
  virtual TorchDevice& torch() = 0;
};

}  // namespace laneway::adaptor

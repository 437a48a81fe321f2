// TorchDevice: a device as torch knows it, for the runner of graphs: where tensors are, which
// kernels run, and how these behave. Graphs are captured on the CPU and retargeted when they are
// loaded (adaptor/run/placement.h). Thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <memory>

#include "adaptor/device/device_lane.h"
#include "adaptor/device/random_state.h"
#include "base/result.h"

namespace laneway::adaptor {

// A sequence of device work that was written down instead of run, and can be run again and again.
class Recording {
 public:
  virtual ~Recording() = default;
  // No further work is written down. Error failed when some of it cannot be.
  virtual Status end() = 0;
  // Enqueues all of it, in the order of the lane's stream. Draws advance the generator as in an
  // ordinary run.
  virtual Status launch() = 0;
};

// What a device's kernels do, for the making of programs (adaptor/run/graph_program.h).
struct KernelTraits {
  // Operators refuse bad indices by an exception and have then done nothing. Where they do not,
  // indices are looked at before every operator that trusts them.
  bool check_indices = false;
  // Looking at a tensor's contents waits for the device, so contents that are the same in every
  // iteration are looked at once.
  bool looking_waits = true;
  // Results have the strides that they had when the graph was captured.
  bool lay_out_as_captured = false;
  // adaptor/chains computes on its tensors.
  bool run_chains = false;
};

class TorchDevice {
 public:
  virtual ~TorchDevice() = default;

  virtual c10::Device device() const = 0;
  // The key whose kernels run on it.
  virtual c10::DispatchKey key() const = 0;
  virtual KernelTraits traits() const = 0;
  virtual std::unique_ptr<RandomState> make_random_state() const = 0;
  // What this thread enqueues on the lane from here on is written down, `random` registered with
  // it. unsupported where the device has no such thing.
  virtual Result<std::unique_ptr<Recording>> start_recording(DeviceLane& lane,
                                                             RandomState& random) const = 0;
};

}  // namespace laneway::adaptor

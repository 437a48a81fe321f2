// TorchDevice: a device as torch knows it, for the runner of graphs: the device of its tensors, the
// key of its kernels, and how these kernels behave. Graphs are captured on the CPU and retargeted
// when they are loaded (adaptor/run/placement.h). Thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <memory>
#include <string>

#include "adaptor/device/device_lane.h"
#include "adaptor/device/random_state.h"
#include "base/result.h"

namespace laneway::adaptor {

// A sequence of device work that was recorded instead of run, and can be launched many times.
class Recording {
 public:
  virtual ~Recording() = default;
  // Ends the recording. Error failed when a part of the work cannot be recorded.
  virtual Status end() = 0;
  // Whether the recording came to nothing by what another thread did meanwhile, so that another one
  // may succeed. `fault`: what the node that failed, end() or launch() said.
  virtual bool is_spoilt(const std::string& fault) const = 0;
  // Enqueues all of the work, in the order of the lane's stream. Draws advance the generator as in
  // an ordinary run.
  virtual Status launch() = 0;
};

// How a device's kernels behave, for the loader of programs (adaptor/run/graph_program.h).
struct KernelTraits {
  // Operators refuse bad indices by an exception and have then changed nothing. Where they do not,
  // indices are checked before every operator that trusts them.
  bool check_indices = false;
  // Reading a tensor's contents waits for the device, so contents that are the same in every
  // iteration are checked once.
  bool looking_waits = true;
  // Results have the strides that they had when the graph was captured.
  bool lay_out_as_captured = false;
  // adaptor/chains can compute on the device's tensors.
  bool run_chains = false;
};

class TorchDevice {
 public:
  virtual ~TorchDevice() = default;

  virtual c10::Device device() const = 0;
  // The dispatch key of its kernels.
  virtual c10::DispatchKey key() const = 0;
  virtual KernelTraits traits() const = 0;
  virtual std::unique_ptr<RandomState> make_random_state() const = 0;
  // Starts to record the work that this thread enqueues on the lane, with the draws of `random`.
  // unsupported where the device cannot record.
  virtual Result<std::unique_ptr<Recording>> start_recording(DeviceLane& lane,
                                                             RandomState& random) const = 0;
};

}  // namespace laneway::adaptor

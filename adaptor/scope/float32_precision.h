// How torch computes products of float32: settings of the process, one for each library and kind of
// operator (torch.backends.cuda.matmul.fp32_precision), which operators ask. A setting that is
// "none" follows its library's, which follows the generic one. The older settings
// (torch.set_float32_matmul_precision, torch.backends.cudnn.allow_tf32) stand beside them, and
// torch raises where it is asked for an older one that says something else.
//
// Nothing here throws, whichever of the two forms the process has used.
#pragma once

#include <ATen/Context.h>

#include <array>
#include <optional>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// As they take effect.
lanes::Float32Precisions float32_precisions();

// The process's settings while somebody else's are in force. Not thread-safe: as torch's own.
class Float32Override {
 public:
  // Puts `wanted` in force instead of `now`, which float32_precisions() gave. The first call
  // remembers the settings; a later one also what others changed since the last. Requires:
  // precisions that check_graph accepts.
  void set(const lanes::Float32Precisions& now, const lanes::Float32Precisions& wanted);
  // The settings are as they were, but for those that others changed since. Nothing without set().
  void put_back();

 private:
  // The older settings; empty where torch cannot tell them.
  struct Older {
    std::optional<at::Float32MatmulPrecision> matmul;
    std::optional<bool> cudnn;
  };
  static Older older();

  void remember(lanes::Float32Use use);
  void note_changes();
  Older older_for(const lanes::Float32Precisions& wanted) const;
  void set_older(const Older& now, const Older& wanted);

  bool active_ = false;
  std::array<bool, lanes::kFloat32Uses> touched_{};  // set here since the first call
  // The settings to put back, of those that were touched; "none" where one follows another.
  std::array<at::Float32Precision, lanes::kFloat32Uses> own_{};
  Older older_;
  lanes::Float32Precisions in_force_{};
  Older older_in_force_;
};

}  // namespace laneway::adaptor

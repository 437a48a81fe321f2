// ImagePrefix: the beginning of an image that stayed in the pool when the image left it, so that
// the job computes at once when it comes back (PipeSwitch, Bai et al., OSDI 2020, keeps nothing;
// the rule for how much is pipeline/prefix.h). It is a copy: the image is what lies outside. Plain
// data.
#pragma once

#include "base/bytes.h"

namespace laneway::lanes {

struct ImagePrefix {
  Bytes offset;  // in the pool
  Bytes size;    // 0: there is none
  bool exists() const { return size > Bytes(); }
  friend bool operator==(const ImagePrefix&, const ImagePrefix&) = default;
};

}  // namespace laneway::lanes

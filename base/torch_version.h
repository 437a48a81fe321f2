// Versions of torch as texts ("2.11.0+cu130"): which one a process computes with, and which have
// the same interface. Names nothing of torch itself: processes without it compare versions too.
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway {

// "2.12.0.dev20260101+cu130" has 24; the rest is room for builds with a commit's hash.
inline constexpr size_t kMaxTorchVersionBytes = 64;

struct TorchVersions {
  std::string built;    // with whose headers the program was compiled; empty: it has no torch
  std::string running;  // of the loaded library, as that says itself; empty: it does not say
  friend bool operator==(const TorchVersions&, const TorchVersions&) = default;
};

// "2.11" of "2.11.0+cu130"; empty of a pre-release ("2.12.0a0") and of what is no version.
std::string_view torch_minor(std::string_view version);

// Whether code and graphs for one work with the other: patch releases and builds for other devices
// do. A pre-release works with itself alone.
bool same_torch_minor(std::string_view one, std::string_view other);

// Success when the program has loaded a torch that it was built for. Else unsupported, with both
// versions.
Status check_loaded_torch(const TorchVersions& torch);

// A version that comes from another process has at most kMaxTorchVersionBytes letters,
// digits and "+-._". Else invalid_argument. Empty: not known, which is allowed.
Status check_torch_version_text(std::string_view version);

}  // namespace laneway

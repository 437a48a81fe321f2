// Descriptor: one open file descriptor and the duty to close it. Move-only value; not thread-safe.
#pragma once

#include <utility>

#include "base/result.h"

namespace laneway::service {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over `descriptor`; negative: none.
  explicit Descriptor(int descriptor) : descriptor_(descriptor < 0 ? -1 : descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  bool valid() const { return descriptor_ >= 0; }
  // Stays owned here; -1 when there is none.
  int get() const { return descriptor_; }
  // Gives the duty to close it away.
  int release() { return std::exchange(descriptor_, -1); }
  // Closes what is held and takes over `descriptor`.
  void reset(int descriptor = -1);

  // Another descriptor of the same open file, closed on exec. failed when the process has none left
  // (with the limit's name), invalid_argument when this one is empty.
  Result<Descriptor> duplicate() const;

 private:
  int descriptor_ = -1;
};

// Whether a program that this process starts gets it too.
Status set_close_on_exec(const Descriptor& descriptor, bool close_on_exec);

}  // namespace laneway::service

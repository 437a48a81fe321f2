// SpillFile: a file without a name that takes bytes for which memory is too dear. Its space is
// reserved when it is made, so that a write never meets a full disk; it is read and written, never
// mapped (a mapping of a file that is cut short ends the process with SIGBUS), and gone with its
// last descriptor. Move-only owner of one. Reads and writes of different ranges may be concurrent.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/os/owned_descriptor.h"

namespace laneway::memory {

class SpillFile {
 public:
  // In that folder. Errors name folder, size and remedy: invalid_argument for a size that is not
  // positive or a folder where no such file can be made, out_of_memory when the disk has too little
  // room.
  static Result<SpillFile> create(const std::string& folder, Bytes size);
  // A file that another process made. Takes ownership of the descriptor, also on failure. Error
  // invalid_argument unless it has at least `size` bytes.
  static Result<SpillFile> attach(int descriptor, Bytes size);

  // Error failed when the file does not take, or does not have, all of the bytes.
  Status write(Bytes at, const void* from, Bytes bytes) const;
  Status read(Bytes at, void* to, Bytes bytes) const;

  Bytes size() const { return size_; }
  // This object keeps owning it.
  int descriptor() const { return descriptor_.get(); }

 private:
  SpillFile(OwnedDescriptor descriptor, Bytes size)
      : descriptor_(std::move(descriptor)), size_(size) {}
  Status inside(Bytes at, Bytes bytes) const;

  OwnedDescriptor descriptor_;
  Bytes size_;
};

}  // namespace laneway::memory

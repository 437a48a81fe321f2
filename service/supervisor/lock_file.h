// LockFile: at most one service at an address. The file holds the owner's pid and address and stays
// locked (flock) as long as its owner lives, however it ends; a file that nobody has locked is left
// over and taken. It is the owner's alone to open, so nobody else can lock it. Where something that
// cleans up has removed it, the sockets beside it tell that the service lives. Removed at the end.
// Move-only; not thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <variant>

#include "base/result.h"
#include "service/transport/address.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// The owner of an address as its lock file says; pid 0 when it has not written it yet.
struct LockHolder {
  pid_t pid = 0;
  std::string address;
};

class LockFile {
 public:
  // The lock of `address`, whose folder is there; or who has it. A service that was killed may
  // listen for a moment more: that is waited for. Error failed when the file cannot be opened or
  // locked.
  static Result<std::variant<LockFile, LockHolder>> take(const Address& address);

  LockFile(LockFile&&) noexcept = default;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

 private:
  LockFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Descriptor file_;
};

}  // namespace laneway::service

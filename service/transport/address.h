// Address: where a service listens. `ipc://PATH` is a Unix socket for control; the descriptor
// socket (lifelines) lies beside it with ".fd" appended, the lock file with ".lock". One text form
// for the daemon, the client library and the command line. Value type; nothing here touches files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway::service {

class Address {
 public:
  // "ipc://PATH", PATH absolute or relative to the working directory. Errors: invalid_argument for
  // another form or a path that is too long for a socket; unsupported for tcp://, which this
  // version does not serve.
  static Result<Address> parse(std::string_view text);
  // What is meant when nothing is given: $LANEWAY_ADDRESS, else
  // ipc://$XDG_RUNTIME_DIR/laneway/laneway.sock, else ipc:///tmp/laneway-UID/laneway.sock.
  static Result<Address> standard();
  // `text`, or standard() when it is empty.
  static Result<Address> parse_or_standard(std::string_view text);

  // "ipc://" and the absolute path.
  std::string text() const { return "ipc://" + path_; }
  const std::string& path() const { return path_; }
  std::string descriptor_path() const { return path_ + ".fd"; }
  std::string lock_path() const { return path_ + ".lock"; }
  // The folder of all three.
  std::string directory() const;

 private:
  explicit Address(std::string path) : path_(std::move(path)) {}

  std::string path_;  // absolute
};

}  // namespace laneway::service

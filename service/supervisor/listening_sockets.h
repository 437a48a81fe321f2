// ListeningSockets: the folder and the two sockets of an address. The folder is the owner's alone
// to write, the sockets are for the owner and the group, whatever the umask is: who may connect is
// decided by the file system. Left-over sockets are replaced, which is safe only under the
// address's lock. The files go with the object, as far as they are still its own. Move-only;
// changes the umask for moments, so one thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>

#include "base/result.h"
#include "service/transport/address.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// Makes the folder (mode 0750) if it is not there. Error refused, with the remedy, when it is a
// link, belongs to somebody else or can be written by others; failed when it cannot be made.
Status prepare_folder(const std::string& directory);

class ListeningSockets {
 public:
  // Both sockets bound and listening. Error refused when something that is no socket is there.
  static Result<ListeningSockets> open(const Address& address);

  ListeningSockets(ListeningSockets&&) noexcept = default;
  ListeningSockets& operator=(ListeningSockets&&) = delete;
  ~ListeningSockets();

  // What became of the first of the two files that is not this service's any more, in words;
  // nothing while both are. Clients that come then do not find this service.
  std::optional<std::string> lost() const;

  const Descriptor& control() const { return control_; }
  const Descriptor& descriptors() const { return descriptors_; }

 private:
  // A file as it was made.
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };

  ListeningSockets() = default;
  static Status listen(const std::string& path, Descriptor& socket, File& file);
  static std::optional<std::string> what_became_of(const File& file);

  std::array<File, 2> files_;
  Descriptor control_;
  Descriptor descriptors_;
};

}  // namespace laneway::service

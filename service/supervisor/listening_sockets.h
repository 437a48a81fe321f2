// ListeningSockets: the folder and the two sockets of an address. The folder is the owner's alone
// to write, the sockets are for the owner and the group, whatever the umask is: who may connect is
// decided by the file system. Left-over sockets are replaced, which is safe only under the
// address's lock. The files go with the object. Move-only; changes the umask for moments, so one
// thread.
#pragma once

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

  const Descriptor& control() const { return control_; }
  const Descriptor& descriptors() const { return descriptors_; }

 private:
  explicit ListeningSockets(Address address) : address_(std::move(address)) {}

  Address address_;
  Descriptor control_;
  Descriptor descriptors_;
};

}  // namespace laneway::service

// A service's address in a folder that is removed with this object, and its listening sockets.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/check.h"
#include "service/transport/address.h"
#include "service/transport/unix_socket.h"

namespace laneway::testing {

class TemporaryAddress {
 public:
  TemporaryAddress() {
    std::string folder = (std::filesystem::temp_directory_path() / "laneway-XXXXXX").string();
    LW_CHECK(mkdtemp(folder.data()) != nullptr, folder);
    folder_ = folder;
    address_ = service::Address::parse("ipc://" + folder + "/s").value();
  }
  ~TemporaryAddress() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryAddress(const TemporaryAddress&) = delete;
  TemporaryAddress& operator=(const TemporaryAddress&) = delete;

  const service::Address& operator*() const { return *address_; }
  const service::Address* operator->() const { return &*address_; }
  service::Descriptor listen() const {
    return std::move(service::listen_unix(address_->path(), 0600)).value();
  }
  service::Descriptor listen_lifeline() const {
    return std::move(service::listen_unix(address_->descriptor_path(), 0600)).value();
  }

 private:
  std::string folder_;
  std::optional<service::Address> address_;
};

}  // namespace laneway::testing

#include "service/transport/address.h"

#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace laneway::service {
namespace {

constexpr std::string_view kScheme = "ipc://";
// What the system has room for, less the longest suffix and the final zero.
constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - sizeof(".fd");

Error bad_address(std::string_view text, const std::string& why) {
  return Error{ErrorCode::invalid_argument, "address '" + std::string(text) + "' " + why};
}

// The variable's text; empty when it is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  if (text.starts_with("tcp://")) {
    return Error{ErrorCode::unsupported,
                 "address '" + std::string(text) +
                     "' is of another machine, which this version does not serve: use ipc://PATH"};
  }
  if (!text.starts_with(kScheme) || text.size() == kScheme.size()) {
    return bad_address(text, "has no form that is known: use ipc://PATH");
  }
  const std::string_view given = text.substr(kScheme.size());
  if (given.find('\0') != std::string_view::npos) {
    return bad_address(text, "has a zero byte in its path: use ipc://PATH");
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(given, error);
  if (error) return bad_address(text, "cannot be made absolute: " + error.message());
  std::string path = absolute.lexically_normal().string();
  if (path.ends_with('/')) {
    return bad_address(
        text, "names a folder: add the socket's name, such as ipc://" + path + "laneway.sock");
  }
  if (path.size() > kMaxPath) {
    return bad_address(text, "has a path of " + std::to_string(path.size()) +
                                 " bytes; a socket's may have " + std::to_string(kMaxPath) +
                                 ": use a shorter one");
  }
  return Address(std::move(path));
}

Result<Address> Address::standard() {
  const std::string given = environment("LANEWAY_ADDRESS");
  if (!given.empty()) return parse(given);
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return parse("ipc://" + runtime + "/laneway/laneway.sock");
  return parse("ipc:///tmp/laneway-" + std::to_string(::getuid()) + "/laneway.sock");
}

Result<Address> Address::parse_or_standard(std::string_view text) {
  return text.empty() ? standard() : parse(text);
}

std::string Address::directory() const {
  return std::filesystem::path(path_).parent_path().string();
}

}  // namespace laneway::service

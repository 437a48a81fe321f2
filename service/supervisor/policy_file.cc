#include "service/supervisor/policy_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "plugin/plugin_process.h"
#include "policies/registry.h"

namespace laneway::service {

Result<std::string> checked_policy_file(const std::string& file) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::canonical(file, error);
  // What is not there is said as the check says it.
  if (Status good = plugin::check_program(error ? file : found.string()); !good) {
    return good.error();
  }
  const std::string folder = found.parent_path().string();
  struct stat is {};
  if (error || ::stat(folder.c_str(), &is) != 0) {
    return Error{ErrorCode::invalid_argument,
                 "the folder of policy " + file + " cannot be looked at: " + std::strerror(errno)};
  }
  const bool others_may =
      (is.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (is.st_uid != ::geteuid() && is.st_uid != 0);
  if (!others_may) return found.string();
  return Error{ErrorCode::invalid_argument,
               "policy " + file + " lies in " + folder +
                   ", where others than the service's user and root may put another file in its "
                   "place: move it to a folder of your own, or chmod go-w " +
                   folder};
}

Result<std::string> startable_policy(const std::string& text) {
  const auto plugin = policies::plugin_of(text);
  if (!plugin) return text;
  std::error_code error;
  const std::string file =
      std::filesystem::absolute(plugin->file, error).lexically_normal().string();
  if (error) return Error{ErrorCode::invalid_argument, plugin->file + ": " + error.message()};
  if (const auto good = checked_policy_file(file); !good) return good.error();
  return file + text.substr(plugin->file.size());
}

}  // namespace laneway::service

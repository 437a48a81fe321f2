#include "service/broker/user_names.h"

#include <pwd.h>

#include <map>

namespace laneway::service {

std::string user_name(uint32_t uid) {
  static std::map<uint32_t, std::string> known;
  const auto found = known.find(uid);
  if (found != known.end()) return found->second;
  const passwd* entry = ::getpwuid(uid);
  return known[uid] = entry != nullptr ? entry->pw_name : std::to_string(uid);
}

}  // namespace laneway::service

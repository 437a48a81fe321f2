#include "base/torch_version.h"

#include <algorithm>

namespace laneway {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view torch_minor(std::string_view version) {
  const std::string_view release = version.substr(0, version.find('+'));
  const size_t first = release.find('.');
  if (first == std::string_view::npos) return {};
  const size_t second = std::min(release.find('.', first + 1), release.size());
  const size_t post = std::min(release.find(".post"), release.size());
  const bool released = first > 0 && second > first + 1 && is_digit(release.back()) &&
                        std::all_of(release.begin(), release.begin() + static_cast<long>(post),
                                    [](char c) { return is_digit(c) || c == '.'; });
  return released ? version.substr(0, second) : std::string_view();
}

bool same_torch_minor(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const std::string_view minor = torch_minor(one);
  return !minor.empty() && minor == torch_minor(other);
}

Status check_loaded_torch(const TorchVersions& torch) {
  if (torch.running.empty() || same_torch_minor(torch.built, torch.running)) return {};
  return Error{ErrorCode::unsupported,
               "this program was built for torch " + torch.built + " and has loaded torch " +
                   torch.running + ": install torch " + std::string(torch_minor(torch.built)) +
                   ", or a Laneway that is built for the torch that is there"};
}

Status check_torch_version_text(std::string_view version) {
  const bool plain = std::all_of(version.begin(), version.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.' || c == '_';
  });
  if (plain && version.size() <= kMaxTorchVersionBytes) return {};
  return Error{ErrorCode::invalid_argument,
               "torch_version of " + std::to_string(version.size()) +
                   " bytes is no version: it has at most " + std::to_string(kMaxTorchVersionBytes) +
                   " letters, digits and \"+-._\", as \"2.11.0+cu130\""};
}

}  // namespace laneway

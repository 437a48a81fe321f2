#include "adaptor/device/device_plugin.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/version.h"

namespace laneway::adaptor {
namespace {

std::string folder_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? std::string("./") : file.substr(0, slash + 1);
}

// The folders of the library or program that this code is in, with their slash: as it was named,
// and where it lies, which is elsewhere when a link was named.
std::vector<std::string> own_folders() {
  Dl_info where{};
  if (::dladdr(reinterpret_cast<const void*>(&load_device_plugin), &where) == 0 ||
      where.dli_fname == nullptr) {
    return {};
  }
  const std::string named = where.dli_fname;
  std::vector<std::string> folders;
  if (named.find('/') != std::string::npos) folders.push_back(folder_of(named));
  // A program that the shell found on its path is named without one.
  const char* const file = folders.empty() ? "/proc/self/exe" : named.c_str();
  if (char* const real = ::realpath(file, nullptr); real != nullptr) {
    folders.push_back(folder_of(real));
    std::free(real);
  }
  return folders;
}

// "LANEWAY_CUDA_PLUGIN" for "cuda".
std::string variable_of(const std::string& kind) {
  std::string name = "LANEWAY_";
  for (const char c : kind) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name + "_PLUGIN";
}

std::vector<std::string> places(const std::string& kind) {
  const char* const asked = std::getenv(variable_of(kind).c_str());
  if (asked != nullptr && *asked != 0) return {asked};
  const std::string library = "liblaneway_" + kind + ".so";
  std::vector<std::string> found;
  for (const std::string& folder : own_folders()) {
    found.push_back(folder + library);
    found.push_back(folder + "../adaptor/" + library);
  }
  return found;
}

std::string_view text_of(const char* text) { return text == nullptr ? "none" : text; }

Error refuse(const std::string& path, const std::string& why) {
  return Error{ErrorCode::unsupported, path + ": " + why};
}

Result<const DevicePlugin*> open_plugin(void* library, const std::string& path) {
  const auto entry =
      reinterpret_cast<const DevicePlugin* (*)()>(::dlsym(library, kDevicePluginEntry));
  if (entry == nullptr) {
    std::string why = "it does not export ";
    why.append(kDevicePluginEntry).append("; it is no plugin of Laneway's");
    return refuse(path, why);
  }
  const DevicePlugin* const plugin = entry();
  // The version first: behind it the table may look otherwise.
  if (plugin->version != kDevicePluginVersion) {
    return refuse(path, "its plugin interface has version " + std::to_string(plugin->version) +
                            ", this build's has " + std::to_string(kDevicePluginVersion) +
                            ": build both together");
  }
  if (text_of(plugin->laneway_version) != version()) {
    return refuse(path, "it is of Laneway " + std::string(text_of(plugin->laneway_version)) +
                            ", this is " + std::string(version()) + ": build both together");
  }
  if (text_of(plugin->torch_version) != TORCH_VERSION) {
    return refuse(path, "it was built against torch " +
                            std::string(text_of(plugin->torch_version)) + ", this against " +
                            TORCH_VERSION + ": build both together");
  }
  return plugin;
}

Result<const DevicePlugin*> find_plugin(const std::string& kind) {
  std::string tried;
  for (const std::string& path : places(kind)) {
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return open_plugin(library, path);
    }
    const char* const why = ::dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why == nullptr ? path : why);
  }
  return Error{ErrorCode::unsupported, "no plugin with the device can be loaded (" + tried +
                                           "); build it, or name it in " + variable_of(kind)};
}

}  // namespace

Result<const DevicePlugin*> load_device_plugin(const std::string& kind) {
  static Mutex mutex;
  static std::map<std::string, const DevicePlugin*> loaded;
  const MutexLock lock(mutex);
  if (const auto known = loaded.find(kind); known != loaded.end()) return known->second;
  Result<const DevicePlugin*> found = find_plugin(kind);
  if (found) loaded.emplace(kind, found.value());
  return found;
}

}  // namespace laneway::adaptor

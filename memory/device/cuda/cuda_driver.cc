#include "memory/device/cuda/cuda_driver.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <optional>
#include <string>
#include <type_traits>

#include "base/mutex.h"

namespace laneway::memory {
namespace {

// What the header declares is the form of the version that is asked for.
#define LW_CUDA_PROVE(name, version)                                        \
  static_assert(std::is_same_v<decltype(&::name), PFN_##name##_v##version>, \
                #name " has another form in CUDA " #version);
LW_CUDA_REQUIRED_ENTRIES(LW_CUDA_PROVE)
LW_CUDA_OPTIONAL_ENTRIES(LW_CUDA_PROVE)
#undef LW_CUDA_PROVE

constexpr const char* kRemedy =
    "install NVIDIA's driver for this GPU, or use --device host (device=\"host\" in Python)";

Error no_driver(const std::string& why) {
  return Error{ErrorCode::unsupported, "there is no CUDA driver here: " + why + "; " + kRemedy};
}

// 13000 -> "13.0".
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error too_old(const std::string& has) {
  return Error{ErrorCode::unsupported, "the CUDA driver is too old: it has " + has +
                                           ", this build needs CUDA " + version_text(CUDA_VERSION) +
                                           ": install a newer driver, or use --device host"};
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

class Finder {
 public:
  explicit Finder(PFN_cuGetProcAddress_v12000 get) : get_(get) {}

  // Null where the driver does not have it.
  template <class Function>
  void find(const char* name, int version, Function* entry) const {
    void* found = nullptr;
    CUdriverProcAddressQueryResult why{};
    const CUresult result = get_(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &why);
    const bool usable = result == CUDA_SUCCESS && why == CU_GET_PROC_ADDRESS_SUCCESS;
    *entry = usable ? reinterpret_cast<Function>(found) : nullptr;
  }

 private:
  PFN_cuGetProcAddress_v12000 get_;
};

}  // namespace

Result<const CudaDriver*> CudaDriver::load() {
  static Mutex mutex;
  static std::optional<CudaDriver> loaded LW_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (!loaded.has_value()) {
    Result<CudaDriver> now = load_from("libcuda.so.1");
    if (!now.ok()) return now.error();
    loaded = now.value();
  }
  return &*loaded;
}

Result<CudaDriver> CudaDriver::load_from(const char* library) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);  // stays: threads run in it
  if (opened == nullptr) {
    const char* why = ::dlerror();
    return no_driver(std::string(library) + " cannot be opened (" +
                     (why == nullptr ? "no reason given" : why) + ")");
  }
  const auto driver_version = symbol<PFN_cuDriverGetVersion_v2020>(opened, "cuDriverGetVersion");
  int version = 0;
  if (driver_version == nullptr || driver_version(&version) != CUDA_SUCCESS) {
    return no_driver(std::string(library) + " does not tell its version");
  }
  const auto get = symbol<PFN_cuGetProcAddress_v12000>(opened, "cuGetProcAddress_v2");
  if (version < CUDA_VERSION || get == nullptr) return too_old("CUDA " + version_text(version));

  CudaDriver driver;
  const Finder finder(get);
  std::string missing;
#define LW_CUDA_FIND(name, version)          \
  finder.find(#name, version, &driver.name); \
  if (driver.name == nullptr) missing += missing.empty() ? #name : ", " #name;
  LW_CUDA_REQUIRED_ENTRIES(LW_CUDA_FIND)
#undef LW_CUDA_FIND
#define LW_CUDA_FIND(name, version) finder.find(#name, version, &driver.name);
  LW_CUDA_OPTIONAL_ENTRIES(LW_CUDA_FIND)
#undef LW_CUDA_FIND
  if (!missing.empty()) {
    return too_old("CUDA " + version_text(version) + " but not " + missing);
  }
  return driver;
}

}  // namespace laneway::memory

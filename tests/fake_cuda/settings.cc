#include "tests/fake_cuda/settings.h"

#include <cstdlib>
#include <sstream>

namespace laneway::fake_cuda {
namespace {

int64_t number(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoll(text, nullptr, 0);
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.memory_bytes = static_cast<size_t>(number("FAKE_CUDA_MEMORY_MIB", 4096)) << 20;
  settings.delay_us = number("FAKE_CUDA_DELAY_US", 0);
  settings.seed = static_cast<uint64_t>(number("FAKE_CUDA_SEED", 1));
  settings.fill = static_cast<int>(number("FAKE_CUDA_FILL", settings.fill));
  settings.fault_after = number("FAKE_CUDA_FAULT_AFTER", -1);
  settings.fault_error = static_cast<int>(number("FAKE_CUDA_FAULT_ERROR", settings.fault_error));
  settings.runtime_version = static_cast<int>(number("FAKE_CUDA_RUNTIME_VERSION", 0));
  settings.quiet = number("FAKE_CUDA_QUIET", 0) != 0;
  if (const char* path = std::getenv("FAKE_CUDA_NOTES")) settings.notes_path = path;
  if (const char* list = std::getenv("FAKE_CUDA_FORBID")) {
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
      if (bool* flag = settings.ability(word)) *flag = false;
    }
  }
  return settings;
}

bool* Settings::ability(const std::string& name) {
  if (name == "device") return &device;
  if (name == "vmm") return &vmm;
  if (name == "fd") return &fd;
  if (name == "green") return &green;
  if (name == "replay") return &replay;
  return nullptr;
}

}  // namespace laneway::fake_cuda

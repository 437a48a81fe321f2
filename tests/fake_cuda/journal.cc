#include "tests/fake_cuda/journal.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

namespace laneway::fake_cuda {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;
constexpr const char* kKernel = "kernel:";

}  // namespace

void Journal::call(const char* name) {
  ++counts_[name];
  if (noting()) note(std::string("call ") + name);
}

void Journal::kernel(const std::string& name) { ++counts_[kKernel + name]; }

void Journal::note(const std::string& line) {
  if (noting_ && notes_.size() < kMaxText) notes_ += line + "\n";
  if (!settings_.notes_path.empty()) {
    std::ofstream(settings_.notes_path, std::ios::app) << getpid() << " " << line << "\n";
  }
}

void Journal::complain(const std::string& what) {
  ++complained_;
  if (complaints_.size() < kMaxText) complaints_ += what + "\n";
  note("complaint " + what);
  if (!settings_.quiet) std::fputs(("fake CUDA: " + what + "\n").c_str(), stderr);
}

size_t Journal::count(const std::string& name) const {
  if (name == "complaints") return complained_;
  if (!name.starts_with(kKernel)) {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  const std::string part = name.substr(std::string(kKernel).size());
  size_t sum = 0;
  for (const auto& [counted, times] : counts_) {
    if (counted.starts_with(kKernel) && counted.find(part) != std::string::npos) sum += times;
  }
  return sum;
}

std::string Journal::take_notes() { return std::exchange(notes_, std::string()); }

}  // namespace laneway::fake_cuda

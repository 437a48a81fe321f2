#include "service/transport/adaptive_spin.h"

#include <sched.h>

#include <atomic>
#include <bit>

namespace laneway::service {
namespace {

// The set of cores of a process changes rarely, and asking costs a system call.
constexpr uint32_t kSpinsBetweenCounts = 256;

// Threads of this process that spin now, or may begin to.
std::atomic<uint32_t> spinning{0};

}  // namespace

uint64_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // Fails where the set has room for fewer cores than there are: enough of them, then.
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return ~uint64_t{0};
  uint64_t bits = 0;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) bits |= uint64_t{1} << core % 64;
  }
  return bits;
}

void AdaptiveSpin::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

bool AdaptiveSpin::take_core(const AwaitedThreads& others) {
  if (spins_++ % kSpinsBetweenCounts == 0) own_cores_ = cores_();
  const auto cores = static_cast<uint32_t>(std::popcount(own_cores_ | others.cores));
  if (spinning.fetch_add(1, std::memory_order_relaxed) + others.threads < cores) return true;
  give_core_back();
  return false;
}

void AdaptiveSpin::give_core_back() { spinning.fetch_sub(1, std::memory_order_relaxed); }

void AdaptiveSpin::slept() {
  if (spun_ || clock_.now() - began_ > kPromisingSleep) return;
  credit_ = std::min(credit_ + 1, kMostCredit);
}

void AdaptiveSpin::paid_off() {
  credit_ = std::min(credit_ + 1, kMostCredit);
  cost_ = std::max(cost_ / 2, kLeastCost);
}

void AdaptiveSpin::missed() {
  credit_ -= cost_;
  cost_ = std::min(cost_ * 2, kMostCost);
}

void AdaptiveSpin::cores_are_short() {
  credit_ = -kMostCost;
  cost_ = kMostCost;
}

}  // namespace laneway::service

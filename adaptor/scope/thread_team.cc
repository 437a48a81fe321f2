#include "adaptor/scope/thread_team.h"

#include <sched.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/openmp.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

constexpr int kPauseSoft = 1;  // omp_pause_soft: the caller's own settings stay

// Within it after a region, the threads of a team wait for the next one without sleeping.
constexpr Duration kAwake = milliseconds(1);

// When the thread's team was used last; nothing: it has none.
thread_local std::optional<TimePoint> used;

// A parallel region in which each thread finds a processor. Whoever has the team gives way until
// all others have come, so that those on its processor can run; it does not sleep, because whoever
// woke it would draw it to its own processor.
class Gathering {
 public:
  Gathering() { take_own(); }

  void join() {
    if (std::this_thread::get_id() == starter_) {
      static int (*const team_size)() = find_openmp<int()>("omp_get_num_threads");
      const int others = team_size() - 1;  // OpenMP may have given fewer than were asked for
      while (there_.load() < others) std::this_thread::yield();
      return;
    }
    const std::lock_guard lock(mutex_);
    leave_taken_processor();
    take_own();
    ++there_;
  }

 private:
  void take_own() {
    const int processor = ::sched_getcpu();
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &taken_);
  }
  bool is_taken(int processor) const { return CPU_ISSET(processor, &taken_); }

  // To one that is nobody's yet, if the thread may use one. Afterwards it may use what it could.
  void leave_taken_processor() const {
    const int processor = ::sched_getcpu();
    if (processor < 0 || processor >= CPU_SETSIZE || !is_taken(processor)) return;
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    cpu_set_t free;
    CPU_ZERO(&free);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &allowed) && !is_taken(i)) CPU_SET(i, &free);
    }
    if (CPU_COUNT(&free) == 0 || ::sched_setaffinity(0, sizeof free, &free) != 0) return;
    (void)::sched_setaffinity(0, sizeof allowed, &allowed);
  }

  const std::thread::id starter_ = std::this_thread::get_id();
  std::mutex mutex_;  // guards taken_ among the others
  cpu_set_t taken_{};
  std::atomic<int> there_{0};
};

}  // namespace

void gather_thread_team(TimePoint now, uint32_t threads) {
  if (used && now - *used < kAwake) return;
  if (gnu_parallel() == nullptr || thread_has_forked()) return;
  Gathering gathering;
  const TorchUse use;
  gnu_parallel()([](void* data) { static_cast<Gathering*>(data)->join(); }, &gathering, threads, 0);
}

void thread_team_used(TimePoint now) { used = now; }

void end_thread_team() {
  static int (*const pause)(int) = find_openmp<int(int)>("omp_pause_resource_all");
  LW_CHECK(pause != nullptr, "torch's OpenMP runtime is OpenMP 5 or newer");
  used.reset();
  if (thread_has_forked()) return;
  const TorchUse use;
  (void)pause(kPauseSoft);  // refused within a parallel region
}

}  // namespace laneway::adaptor

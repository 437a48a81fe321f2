#include "adaptor/scope/core_shortage.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/openmp.h"

namespace laneway::adaptor {
namespace {

// How often the idle thread looks whether cores are free again: rarely, because it uses one.
constexpr std::chrono::milliseconds kBetweenLooks{500};

// Null where OpenMP is not GNU's, whose rule this relies on, or the user has decided.
ParallelRegion* parallel() {
  static ParallelRegion* const found = [] {
    const bool decided =
        std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
    return decided ? nullptr : gnu_parallel();
  }();
  return found;
}

// "some avg10=... total=<us>" is the first line.
std::optional<Duration> machine_waited() {
  std::ifstream file("/proc/pressure/cpu");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t total = line.rfind("total=");
  if (total == std::string::npos) return std::nullopt;
  return microseconds(std::strtoll(line.c_str() + total + 6, nullptr, 10));
}

// "<ns on a core> <ns waiting for one> <turns>".
std::optional<Duration> thread_waited() {
  std::ifstream file("/proc/thread-self/schedstat");
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
  if (!(file >> ran_ns >> waited_ns)) return std::nullopt;
  return Duration(waited_ns);
}

TimePoint now() {
  return TimePoint(std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now().time_since_epoch())
                       .count());
}

// The process whose idle thread keeps a team; a child of a fork() does not have the thread.
std::atomic<pid_t> keeping_process{0};

// OpenMP ends the team with the thread that keeps it.
void keep_team(uint32_t threads) {
  ::pthread_setname_np(::pthread_self(), "laneway-idle");
  {
    const TorchUse use;
    parallel()([](void*) {}, nullptr, threads, 0);
  }
  CoreShortage cores;
  while (true) {
    const std::optional<Duration> waited = machine_waited();
    if (!waited || cores.look_for_end({now(), Duration(), *waited})) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  keeping_process.store(0);
}

void have_barriers_sleep(uint32_t threads) {
  const pid_t self = ::getpid();
  pid_t other = keeping_process.load();
  if (other == self || !keeping_process.compare_exchange_strong(other, self)) return;
  // With its own thread, one more than the processors less those that compute.
  const auto processors = static_cast<uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const uint32_t wanted = processors + 2 - std::min(threads, processors);
  try {
    std::thread(keep_team, wanted).detach();
  } catch (const std::system_error&) {  // no more threads: barriers stay as they are
    keeping_process.store(0);
  }
}

}  // namespace

bool CoreShortage::look(const Sums& sums) {
  const std::optional<Sums> before = std::exchange(last_, sums);
  if (!before) return false;
  const int64_t percent_ns = (sums.at - before->at).ns() / 100;
  return (sums.thread_waited - before->thread_waited).ns() >
             kThreadWaitsAbovePercent * percent_ns &&
         (sums.machine_waited - before->machine_waited).ns() >
             kMachineWaitsAbovePercent * percent_ns;
}

bool CoreShortage::look_for_end(const Sums& sums) {
  const std::optional<Sums> before = std::exchange(last_, sums);
  if (!before) return false;
  const int64_t percent_ns = (sums.at - before->at).ns() / 100;
  return (sums.machine_waited - before->machine_waited).ns() <
         kMachineWaitsBelowPercent * percent_ns;
}

void watch_cores(TimePoint now, uint32_t threads, bool others_compute) {
  thread_local CoreShortage cores;
  if (others_compute) return cores.forget();
  if (!cores.due(now) || parallel() == nullptr) return;
  if (keeping_process.load() == ::getpid())
    return cores.forget();  // what it waits for now says little
  const std::optional<Duration> thread = thread_waited();
  const std::optional<Duration> machine = machine_waited();
  if (!thread || !machine) return;
  if (cores.look({now, *thread, *machine})) have_barriers_sleep(threads);
}

}  // namespace laneway::adaptor

#include "bench/trial_loop.h"

#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

namespace laneway::bench {

int serve_trials(const std::function<int64_t()>& round_trip) {
  std::printf("ready\n");
  std::fflush(stdout);
  unsigned long long count = 0;
  unsigned long long gap_us = 0;
  std::vector<int64_t> times;
  while (std::scanf("%llu %llu", &count, &gap_us) == 2) {
    times.clear();
    times.reserve(count);
    std::mt19937 random;  // the same gaps in each trial
    std::uniform_int_distribution<uint64_t> gap(0, 2 * gap_us);
    for (unsigned long long i = 0; i < count; ++i) {
      if (gap_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(gap(random)));
      times.push_back(round_trip());
    }
    for (const int64_t time : times) std::printf("%lld ", static_cast<long long>(time));
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

void stay_on_core(int core) {
  if (core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) == 0) return;
  std::fprintf(stderr, "this process may not run on core %d\n", core);
  std::exit(2);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace laneway::bench

// laneway-plan-alloc: what an allocation and its free cost in a lane that replays a plan, against
// glibc's posix_memalign and free on the same sequence.
//
//     laneway-plan-alloc TAPE TRIALS
//
// TAPE is a text file: "ALLOCATIONS FREES", then a line "BYTES FREES_BEFORE" for each allocation,
// then the index of the allocation that each free ends. Prints one JSON object: for both sides the
// nanoseconds an event (allocation or free) took in each of TRIALS interleaved trials.
//
// Both sides are warm: the sequence was replayed and every page touched before, and glibc is told
// to give nothing back to the system, so neither side meets a page fault while it is timed.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/lane_arena.h"
#include "memory/planned_tape.h"
#include "memory/planner.h"
#include "memory/tape.h"

namespace {

using laneway::Bytes;
using laneway::memory::AllocationTape;
using laneway::memory::LaneArena;

constexpr int64_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr double kTrialNs = 2e6;
constexpr uint32_t kMaxEvents = 10'000'000;

struct Event {
  bool is_allocation = false;
  uint32_t index = 0;  // of the allocation
  size_t bytes = 0;
};

std::optional<AllocationTape> read_tape(const char* path) {
  std::ifstream file(path);
  uint32_t allocations = 0;
  uint32_t frees = 0;
  if (!(file >> allocations >> frees) || allocations > kMaxEvents || frees > allocations) return {};
  AllocationTape tape;
  tape.allocations.resize(allocations);
  tape.frees.resize(frees);
  for (auto& allocation : tape.allocations) file >> allocation.bytes >> allocation.frees_before;
  for (uint32_t& index : tape.frees) file >> index;
  if (!file) return {};
  return tape;
}

// The tape as one sequence, frees at the latest moment that it allows; nothing when the tape frees
// what is not alive.
std::optional<std::vector<Event>> events_of(const AllocationTape& tape) {
  std::vector<Event> events;
  std::vector<bool> alive(tape.allocations.size(), false);
  size_t freed = 0;
  const auto free_up_to = [&](size_t count) {
    for (; freed < count; ++freed) {
      if (freed >= tape.frees.size()) return false;
      const uint32_t index = tape.frees[freed];
      if (index >= alive.size() || !alive[index]) return false;
      alive[index] = false;
      events.push_back({false, index, 0});
    }
    return true;
  };
  for (uint32_t i = 0; i < tape.allocations.size(); ++i) {
    if (!free_up_to(tape.allocations[i].frees_before)) return {};
    events.push_back({true, i, tape.allocations[i].bytes});
    alive[i] = true;
  }
  if (!free_up_to(tape.frees.size()) || freed != tape.allocations.size()) return {};
  return events;
}

void touch(void* memory, size_t bytes) {
  auto* bytes_of = static_cast<volatile std::byte*>(memory);
  for (size_t i = 0; i < bytes; i += kPage) bytes_of[i] = std::byte{1};
}

// Replays the sequence through glibc.
struct Glibc {
  std::vector<void*> memory;

  bool replay(const std::vector<Event>& events, bool touching) {
    for (const Event& event : events) {
      void*& slot = memory[event.index];
      if (!event.is_allocation) {
        std::free(slot);
        continue;
      }
      if (posix_memalign(&slot, kAlignment, event.bytes) != 0) return false;
      if (touching) touch(slot, event.bytes);
    }
    return true;
  }
};

// Replays the sequence through a lane's arena, as an iteration on its tape.
struct Planned {
  std::vector<void*> memory;
  std::shared_ptr<const laneway::memory::PlannedTape> tape;
  LaneArena arena{kAlignment};

  bool replay(const std::vector<Event>& events, bool touching) {
    arena.begin_planned(tape);
    for (const Event& event : events) {
      void*& slot = memory[event.index];
      if (!event.is_allocation) {
        arena.free(slot);
        continue;
      }
      slot = arena.allocate(event.bytes);
      if (slot == nullptr) return false;
      if (touching) touch(slot, event.bytes);
    }
    return !arena.end().went_off_tape;
  }
};

template <class Side>
double ns_of(Side& side, const std::vector<Event>& events, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    if (!side.replay(events, false)) {
      std::fprintf(stderr, "laneway-plan-alloc: a replay failed while it was timed\n");
      std::exit(1);
    }
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

long minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void print_samples(const char* name, const std::vector<double>& samples) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < samples.size(); ++i) std::printf("%s%.4f", i == 0 ? "" : ", ", samples[i]);
  std::printf("], ");
}

int measure(const std::vector<Event>& events, AllocationTape tape, int trials) {
  Glibc glibc{std::vector<void*>(tape.allocations.size())};
  Planned planned{std::vector<void*>(tape.allocations.size()), nullptr};
  laneway::memory::Plan plan = laneway::memory::plan_tape(tape, {});
  const auto capacity = static_cast<size_t>(plan.peak.count());
  void* lane = nullptr;
  if (posix_memalign(&lane, kPage, std::max(capacity, kPage)) != 0) return 1;
  planned.arena.bind(static_cast<std::byte*>(lane), Bytes(static_cast<int64_t>(capacity)));
  planned.tape = laneway::memory::make_planned_tape(std::move(tape), std::move(plan));

  for (int i = 0; i < 5; ++i) {
    if (!glibc.replay(events, true) || !planned.replay(events, true)) {
      std::fprintf(stderr, "laneway-plan-alloc: the tape does not replay\n");
      return 1;
    }
  }
  const double once = std::max(1.0, ns_of(glibc, events, 10) / 10);
  const int repeats = std::max(3, static_cast<int>(kTrialNs / once));
  const double timed = static_cast<double>(events.size()) * repeats;
  std::vector<double> glibc_ns;
  std::vector<double> planned_ns;
  ns_of(planned, events, repeats);
  const long faults_before = minor_faults();
  for (int trial = 0; trial < trials; ++trial) {
    const bool planned_first = trial % 2 == 0;
    if (planned_first) planned_ns.push_back(ns_of(planned, events, repeats) / timed);
    glibc_ns.push_back(ns_of(glibc, events, repeats) / timed);
    if (!planned_first) planned_ns.push_back(ns_of(planned, events, repeats) / timed);
  }
  const long faults = minor_faults() - faults_before;
  std::printf("{");
  print_samples("planned_ns", planned_ns);
  print_samples("glibc_ns", glibc_ns);
#ifdef __OPTIMIZE__
  const char* optimized = "true";
#else
  const char* optimized = "false";
#endif
  std::printf("\"events\": %zu, \"minor_faults\": %ld, \"optimized\": %s}\n", events.size(), faults,
              optimized);
  std::free(lane);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc == 3 ? std::atoi(argv[2]) : 0;
  if (trials < 1) {
    std::fprintf(stderr, "usage: laneway-plan-alloc TAPE TRIALS (trials: at least 1)\n");
    return 2;
  }
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
  std::optional<AllocationTape> tape = read_tape(argv[1]);
  if (!tape) {
    std::fprintf(stderr, "laneway-plan-alloc: %s is no tape: ALLOCATIONS FREES, then each\n",
                 argv[1]);
    return 1;
  }
  const std::optional<std::vector<Event>> events = events_of(*tape);
  if (!events || events->empty()) {
    std::fprintf(stderr, "laneway-plan-alloc: %s frees what is not alive, or not all\n", argv[1]);
    return 1;
  }
  return measure(*events, std::move(*tape), trials);
}

// laneway-link-rate: what the host's link between the CPU's memory and the pool carries.
//
//     laneway-link-rate BYTES RATE PIECES in|out|both|beside ROUNDS
//     laneway-link-rate BYTES RATE PIECES forever 1
//
// Copies BYTES bytes in PIECES pieces through a PoolAccess whose link carries RATE bytes a second
// (0: as many as the machine copies), ROUNDS times, and as often the same bytes by memcpy, in
// turns. `both`: into the pool and out of it at once, a thread and BYTES bytes each. `beside`: into
// the pool, while another thread writes four bytes again and again, a millisecond apart. `forever`:
// into the pool again and again from "ready" on, until somebody ends the process. Beside the
// copies of a link with a rate a thread sleeps once, for as long as they should take. Prints one
// JSON object: {"link_ns": [...], "memcpy_ns": [...]: from a way's first byte to its last one, the
// slower way's, "cpu_ns": [...], "memcpy_cpu_ns": [...]: processor time of the copying threads,
// "asleep_ns": [...]: what the one sleep took, "small_ns": [...]: each copy of four bytes}.
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "bench/trial_loop.h"
#include "memory/device/host_device.h"
#include "memory/host_pool_access.h"

namespace {

using laneway::Bytes;

// One way through the link: which memory it copies, and what it took.
struct Way {
  bool in = true;
  std::byte* pool = nullptr;
  std::vector<std::byte> host;
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;
};

// What is asked of the link.
struct Load {
  int64_t rate = 0;  // bytes a second
  int64_t pieces = 1;
};

struct Took {
  std::vector<int64_t> wall;
  std::vector<int64_t> cpu;
};

struct Times {
  Took link;
  Took plain;
  std::vector<int64_t> asleep;
  std::vector<int64_t> small;
};

int64_t cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void check(const laneway::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "laneway-link-rate: %s\n", status.error().message.c_str());
  std::exit(1);
}

void copy_by_link(Way& way, laneway::memory::PoolAccess& access, int64_t pieces) {
  const auto bytes = static_cast<int64_t>(way.host.size());
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = bytes * piece / pieces;
    const Bytes size(bytes * (piece + 1) / pieces - begin);
    check(way.in ? access.write(way.pool + begin, way.host.data() + begin, size)
                 : access.read(way.host.data() + begin, way.pool + begin, size));
  }
}

void copy_by_memcpy(Way& way) {
  std::memcpy(way.in ? way.pool : way.host.data(), way.in ? way.host.data() : way.pool,
              way.host.size());
}

// Does this for all ways at once, the first one on the caller's thread. They begin together, and
// that a thread has to be started is not counted.
void copy_all(std::vector<Way>& ways, const std::function<void(Way&)>& copy, Took& took) {
  std::barrier begin(static_cast<std::ptrdiff_t>(ways.size()));
  const auto timed = [&](Way& way) {
    begin.arrive_and_wait();
    const int64_t cpu = cpu_ns();
    const int64_t start = laneway::bench::now_ns();
    copy(way);
    way.wall_ns = laneway::bench::now_ns() - start;
    way.cpu_ns = cpu_ns() - cpu;
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < ways.size(); ++i) others.emplace_back([&, i] { timed(ways[i]); });
  timed(ways[0]);
  for (std::thread& other : others) other.join();
  int64_t wall = 0;
  int64_t cpu = 0;
  for (const Way& way : ways) {
    wall = std::max(wall, way.wall_ns);
    cpu += way.cpu_ns;
  }
  took.wall.push_back(wall);
  took.cpu.push_back(cpu);
}

// What a link with a rate cannot do better than: a thread that sleeps until the last byte's time.
int64_t sleep_for(std::chrono::nanoseconds time) {
  const int64_t start = laneway::bench::now_ns();
  std::this_thread::sleep_for(time);
  return laneway::bench::now_ns() - start;
}

void by_link(std::vector<Way>& ways, laneway::memory::PoolAccess& access, const Load& load,
             Times& times) {
  std::thread sleeper;
  if (load.rate > 0) {
    const auto bytes = static_cast<double>(ways[0].host.size());
    const auto ns = static_cast<int64_t>(bytes * 1e9 / static_cast<double>(load.rate));
    sleeper = std::thread(
        [&times, ns] { times.asleep.push_back(sleep_for(std::chrono::nanoseconds(ns))); });
  }
  copy_all(
      ways, [&](Way& way) { copy_by_link(way, access, load.pieces); }, times.link);
  if (sleeper.joinable()) sleeper.join();
}

// Which of the two goes first changes from round to round.
void measure(std::vector<Way>& ways, laneway::memory::PoolAccess& access, const Load& load,
             int rounds, Times& times) {
  for (int round = 0; round < rounds; ++round) {
    const bool link_first = round % 2 == 0;
    if (link_first) by_link(ways, access, load, times);
    copy_all(ways, copy_by_memcpy, times.plain);
    if (!link_first) by_link(ways, access, load, times);
  }
}

// Copies of four bytes into the pool until `ended`, at least one.
std::vector<int64_t> small_copies(std::byte* pool, laneway::memory::PoolAccess& access,
                                  const std::atomic<bool>& ended) {
  std::vector<int64_t> times;
  const std::array<std::byte, 4> word{};
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int64_t start = laneway::bench::now_ns();
    check(access.write(pool, word.data(), Bytes(word.size())));
    times.push_back(laneway::bench::now_ns() - start);
  } while (!ended.load());
  return times;
}

void print(const char* name, const std::vector<int64_t>& values, const char* behind) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(values[i]));
  }
  std::printf("]%s", behind);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string direction = argc == 6 ? argv[4] : "";
  const std::vector<std::string> known{"in", "out", "both", "beside", "forever"};
  if (std::find(known.begin(), known.end(), direction) == known.end()) {
    std::fprintf(stderr,
                 "usage: laneway-link-rate BYTES RATE PIECES in|out|both|beside|forever "
                 "ROUNDS\n");
    return 2;
  }
  const int64_t bytes = std::atoll(argv[1]);
  const int64_t rate = std::atoll(argv[2]);
  const int64_t pieces = std::atoll(argv[3]);
  const int rounds = std::atoi(argv[5]);
  if (bytes < 1 || rate < 0 || pieces < 1 || pieces > bytes || rounds < 1) {
    std::fprintf(stderr,
                 "laneway-link-rate: BYTES, PIECES and ROUNDS are at least 1, PIECES at "
                 "most BYTES, RATE is not negative\n");
    return 2;
  }
  laneway::memory::HostDevice device;
  laneway::memory::HostPoolAccess access(device.link());
  access.set_bandwidth(rate);
  auto made = device.allocate_pool(Bytes(2 * bytes + 4));
  if (!made) {
    check(made.error());
    return 1;
  }
  std::byte* const pool = made.value()->data();
  const auto size = static_cast<size_t>(bytes);
  std::memset(pool, 1, 2 * size + 4);  // pages are there
  std::vector<Way> ways;
  if (direction != "out") ways.push_back({true, pool, std::vector(size, std::byte{7})});
  if (direction == "out" || direction == "both") {
    ways.push_back({false, pool + bytes, std::vector(size, std::byte{7})});
  }

  if (direction == "forever") {
    std::puts("ready");
    std::fflush(stdout);
    while (true) copy_by_link(ways[0], access, pieces);
  }
  const Load load{rate, pieces};
  Times times;
  if (direction != "beside") {
    measure(ways, access, load, rounds, times);
  } else {
    std::atomic<bool> ended{false};
    std::thread beside([&] { times.small = small_copies(pool + 2 * bytes, access, ended); });
    for (int round = 0; round < rounds; ++round) by_link(ways, access, load, times);
    ended.store(true);
    beside.join();
  }
  std::printf("{");
  print("link_ns", times.link.wall, ", ");
  print("cpu_ns", times.link.cpu, ", ");
  print("memcpy_ns", times.plain.wall, ", ");
  print("memcpy_cpu_ns", times.plain.cpu, ", ");
  print("asleep_ns", times.asleep, ", ");
  print("small_ns", times.small, "}\n");
  return 0;
}

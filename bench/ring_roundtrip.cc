// laneway-ring-roundtrip: what the machine itself takes to hand a message over and back.
//
//     laneway-ring-roundtrip CORE PEER_CORE
//
// Two processes share a ring of 200-byte messages each way and an eventfd each way, and block on
// them; one sends, the other answers. Nothing else happens: this is the yardstick for the service's
// latency, and it is never changed along with the service. CORE is where the sender stays,
// PEER_CORE where the other one does (-1: anywhere). Trials as in bench/trial_loop.h.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bench/trial_loop.h"

namespace {

constexpr size_t kMessageBytes = 200;
constexpr uint64_t kSlots = 64;

struct Ring {
  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) unsigned char slots[kSlots][kMessageBytes];
};

struct Shared {
  Ring there;
  Ring back;
};

void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void send(Ring& ring, uint64_t number, const unsigned char* message, int doorbell) {
  std::memcpy(ring.slots[number % kSlots], message, kMessageBytes);
  ring.written.store(number + 1, std::memory_order_release);
  const uint64_t one = 1;
  if (::write(doorbell, &one, sizeof(one)) != sizeof(one)) fail("write to an eventfd");
}

void receive(const Ring& ring, uint64_t number, unsigned char* message, int doorbell) {
  while (ring.written.load(std::memory_order_acquire) <= number) {
    uint64_t rung = 0;
    if (::read(doorbell, &rung, sizeof(rung)) != sizeof(rung)) fail("read from an eventfd");
  }
  std::memcpy(message, ring.slots[number % kSlots], kMessageBytes);
}

[[noreturn]] void answer(Shared& shared, int there, int back, int core) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  laneway::bench::stay_on_core(core);
  unsigned char message[kMessageBytes];
  for (uint64_t number = 0;; ++number) {
    receive(shared.there, number, message, there);
    ++message[0];
    send(shared.back, number, message, back);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: laneway-ring-roundtrip CORE PEER_CORE (-1: anywhere)\n");
    return 2;
  }
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  Shared& shared = *new (memory) Shared;
  const int there = ::eventfd(0, 0);
  const int back = ::eventfd(0, 0);
  if (there < 0 || back < 0) fail("eventfd");
  const pid_t peer = ::fork();
  if (peer < 0) fail("fork");
  if (peer == 0) answer(shared, there, back, std::atoi(argv[2]));
  laneway::bench::stay_on_core(std::atoi(argv[1]));
  unsigned char message[kMessageBytes] = {};
  uint64_t number = 0;
  const int code = laneway::bench::serve_trials([&] {
    const unsigned char sent = message[0];
    const int64_t start = laneway::bench::now_ns();
    send(shared.there, number, message, there);
    receive(shared.back, number, message, back);
    const int64_t end = laneway::bench::now_ns();
    ++number;
    if (message[0] != static_cast<unsigned char>(sent + 1)) fail("a message was lost");
    return end - start;
  });
  ::kill(peer, SIGKILL);
  ::waitpid(peer, nullptr, 0);
  return code;
}

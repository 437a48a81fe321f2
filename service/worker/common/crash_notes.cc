#include "service/worker/common/crash_notes.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"

namespace laneway::service {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::string_view kNamePrefix = "lane-";
constexpr size_t kNameBytes = 16;  // of PR_GET_NAME
constexpr size_t kStackBytes = size_t{64} << 10;

// What the handler may touch: it runs in any thread, at any moment.
std::atomic<Journal*> journal_of_process{nullptr};
std::array<struct sigaction, kSignals.size()> before;

// Threads inherit the name of the thread that starts them, which is how a team's are known.
LaneId lane_of_thread() {
  std::array<char, kNameBytes + 1> name{};
  if (::prctl(PR_GET_NAME, name.data()) != 0) return {};
  if (std::memcmp(name.data(), kNamePrefix.data(), kNamePrefix.size()) != 0) return {};
  uint64_t lane = 0;
  for (size_t at = kNamePrefix.size(); name[at] != '\0'; ++at) {
    if (name[at] < '0' || name[at] > '9' || lane > limits::kMaxLanes) return {};
    lane = lane * 10 + static_cast<uint64_t>(name[at] - '0');
  }
  return lane <= limits::kMaxLanes ? LaneId(lane) : LaneId();
}

// Lanes still run: what follows (destructors of libraries) would pull their memory away under them.
void note_exit(int code, void* /*unused*/) {
  Journal* const journal = journal_of_process.load(std::memory_order_acquire);
  if (journal == nullptr) return;
  if (const LaneId lane = lane_of_thread(); lane.valid()) {
    journal->notes(lane).signal.store(kNotedExit, std::memory_order_release);
  }
  std::_Exit(code);
}

void note(int signal, siginfo_t* info, void* /*context*/) {
  // A fault of the thread's own, or abort() and raise().
  const bool own = info->si_code > 0 || info->si_pid == ::getpid();
  Journal* const journal = journal_of_process.load(std::memory_order_acquire);
  if (const LaneId lane = lane_of_thread(); own && journal != nullptr && lane.valid()) {
    journal->notes(lane).signal.store(static_cast<uint32_t>(signal), std::memory_order_release);
  }
  for (size_t at = 0; at < kSignals.size(); ++at) {
    if (kSignals[at] == signal) ::sigaction(signal, &before[at], nullptr);
  }
  // An instruction that faulted does so again when this returns; what was sent is sent again.
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

CrashNotes::CrashNotes(Journal& journal) {
  LW_CHECK(journal_of_process.load() == nullptr, "a process has one journal");
  journal_of_process.store(&journal, std::memory_order_release);
  struct sigaction action {};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t at = 0; at < kSignals.size(); ++at) {
    ::sigaction(kSignals[at], &action, &before[at]);
  }
  // It does nothing while there is no journal, and cannot be taken back.
  static const int registered = ::on_exit(note_exit, nullptr);
  LW_CHECK(registered == 0, "the process takes no function for its exit");
}

CrashNotes::~CrashNotes() {
  for (size_t at = 0; at < kSignals.size(); ++at) ::sigaction(kSignals[at], &before[at], nullptr);
  journal_of_process.store(nullptr, std::memory_order_release);
}

LaneThread::LaneThread(LaneId lane) {
  const std::string name = std::string(kNamePrefix) + std::to_string(lane.value());
  ::prctl(PR_SET_NAME, name.c_str());
  // Rests between looks at what is in flight are shorter than the kernel's usual lateness.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  stack_ = std::make_unique<char[]>(kStackBytes);
  const stack_t mine{.ss_sp = stack_.get(), .ss_flags = 0, .ss_size = kStackBytes};
  ::sigaltstack(&mine, nullptr);
}

LaneThread::~LaneThread() {
  if (stack_ == nullptr) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  ::sigaltstack(&none, nullptr);
}

}  // namespace laneway::service

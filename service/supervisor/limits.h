// Maxima of the supervisor: processes, pools, and what it holds for the broker.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::limits {

inline constexpr uint32_t kMaxLaneSms = 1'024;  // several times what a device has
// Standbys each hold a process with LibTorch loaded (some 200 MiB).
inline constexpr uint32_t kMaxStandbys = 8;
inline constexpr Bytes kMinPool = Bytes(1 << 20);  // below this no training step fits
// What the supervisor holds for the broker: sessions, jobs, graphs, links and segments, each a key
// with a note. A note is at most as long as a request (the slots of a job are most of it).
inline constexpr uint32_t kMaxHeldKeys = 1u << 18;
inline constexpr uint32_t kMaxHeldKeyBytes = 128;
inline constexpr uint32_t kMaxHeldNoteBytes = 48u << 20;  // leaves room in a channel's frame
// Open files that the supervisor needs beside those that it holds: listeners, channels, pool,
// journal, stores, processes, and copies on their way to a broker that begins.
inline constexpr uint32_t kDescriptorsOfSupervisor = 48;
inline constexpr uint64_t kMaxHeldBytes = 1ull << 30;  // keys and notes together
// A process that dies is started again: the first time at once, then after longer and longer
// delays. A process that dies this often in this window is not started again.
inline constexpr uint32_t kMaxDeaths = 10;
inline constexpr Duration kDeathsWindow = seconds(60);
inline constexpr Duration kFirstRestartDelay = milliseconds(100);
inline constexpr Duration kLongestRestartDelay = seconds(5);
// A broker that sends nothing for this long, or a worker that is ready and answers nothing, hangs
// and is killed.
inline constexpr Duration kHeartbeatPatience = seconds(30);
// A worker must report within this time that it has loaded LibTorch and mapped the pool; cold disks
// are slow.
inline constexpr Duration kWorkerStartPatience = seconds(120);
// A worker that has closed its channel is about to exit; if it does not, it is killed, and its exit
// code is lost.
inline constexpr Duration kHangUpPatience = seconds(1);
// A worker that was ready has mapped everything: it takes over within this time, or hangs. One that
// makes a pool of its device then has as long as one that starts.
inline constexpr Duration kActivationPatience = seconds(15);
// A worker that is stopped (SIGSTOP) for longer than this is killed.
inline constexpr Duration kStoppedPatience = seconds(1);
// A supervisor that wakes this much later than it asked for was stopped, or had no CPU: it blames
// nobody for what happened meanwhile.
inline constexpr Duration kLate = seconds(1);
// A device or a machine that copies fewer bytes per second than this, of its own accord, hangs.
inline constexpr Bytes kSlowestCopyPerS = Bytes(1 << 28);
// How often it is looked whether the sockets' files are still the service's own.
inline constexpr Duration kSocketLook = seconds(2);
// The time for an orderly end; processes that are left after it are killed.
inline constexpr Duration kStopPatience = seconds(10);

}  // namespace laneway::limits

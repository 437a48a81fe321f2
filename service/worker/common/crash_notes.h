// CrashNotes: while it lives, a thread of a lane that receives a signal of a crash (SIGSEGV,
// SIGBUS, SIGFPE, SIGILL, SIGABRT) notes the signal in the journal (LaneNotes) before the process
// dies of it, as it would without: with the same status, core dump, and handlers that were there
// before. So does one in which a library calls exit() (OpenMP does where it gets no thread): the
// process then ends with that code, before what was made earlier than the notes is destroyed. What
// libraries made later goes first, while other lanes still run. The threads of a lane's OpenMP team
// count as the lane's. Other threads, and signals that another process sent, note nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "service/journal/journal.h"

namespace laneway::service {

// LaneNotes::signal of a lane whose thread called exit().
inline constexpr uint32_t kNotedExit = 1u << 16;

class CrashNotes {
 public:
  // The journal must outlive it. Requires: no other one lives, and there is no lane yet.
  explicit CrashNotes(Journal& journal);
  ~CrashNotes();
  CrashNotes(const CrashNotes&) = delete;
  CrashNotes& operator=(const CrashNotes&) = delete;
};

// The calling thread as one of that lane: with little timer slack, named after it, as are the
// threads that it starts, with a stack for signals, so that one that has used up its own is noted
// too. Lives as long as the thread works for the lane.
class LaneThread {
 public:
  explicit LaneThread(LaneId lane);
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

 private:
  std::unique_ptr<char[]> stack_;  // null: the thread had one
};

}  // namespace laneway::service

#include "service/worker/process/iteration_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "service/trace/limits.h"
#include "service/wire/limits.h"

namespace laneway::service {

void IterationSender::iterated(const wire::IterationNote& note) {
  bool now = false;
  {
    MutexLock lock(mutex_);
    if (kept_.notes.size() >= limits::kMaxIterationNotes) {
      ++kept_.lost;
    } else {
      kept_.notes.push_back(note);
    }
    const int64_t end_ns = note.start_ns + note.took_ns;
    now = kept_.notes.size() >= limits::kMaxIterationNotes / 2 ||
          end_ns - kept_.notes.front().start_ns >= limits::kLongestTraceDelay.ns();
  }
  if (now) send();
}

void IterationSender::send() {
  wire::from_worker::Iterations taken;
  {
    MutexLock lock(mutex_);
    taken = std::exchange(kept_, {});
  }
  if (taken.notes.empty() || broker_.send_now(taken)) return;
  // Nobody took them: back to the front, as far as there is room.
  MutexLock lock(mutex_);
  const size_t room = limits::kMaxIterationNotes - taken.notes.size();
  const size_t later = std::min(room, kept_.notes.size());
  kept_.lost += taken.lost + (kept_.notes.size() - later);
  taken.notes.insert(taken.notes.end(), kept_.notes.begin(),
                     kept_.notes.begin() + static_cast<ptrdiff_t>(later));
  kept_.notes = std::move(taken.notes);
}

}  // namespace laneway::service

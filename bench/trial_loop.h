// Trials on demand: the form in which the latency programs are driven. A line "N GAP" on stdin asks
// for a trial of N round trips; before each the program sleeps for a random time between 0 and
// 2 x GAP microseconds (not at all when GAP is 0). The answer is one line on stdout with the times
// of the round trips in nanoseconds. End of input ends the program. So trials of several programs
// can be interleaved without any of them starting anew.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace laneway::bench {

// `round_trip` does one and returns its time in nanoseconds. Prints "ready" first. Returns the exit
// code.
int serve_trials(const std::function<int64_t()>& round_trip);

// Keeps the calling process (and what it starts) on one core; nothing when `core` is negative.
// Ends the process with a sentence when that is refused.
void stay_on_core(int core);

// Nanoseconds on a clock that only goes forward.
int64_t now_ns();

}  // namespace laneway::bench

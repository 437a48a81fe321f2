// The prefix rule: how much of an image, from its beginning on, must be in the pool when a request
// comes, so that the rest arrives in time for the nodes that need it, and what of that a service is
// asked for. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace laneway::pipeline {

// What one graph needs, and when. Of the same length: for each node, and behind the last one for
// the answer, which waits for the whole image.
struct ArrivalPlan {
  std::span<const Bytes> needs;      // pipeline/arrival.h, and the whole image
  std::span<const Duration> starts;  // what was computed before it, with the image there
};

// The smallest number of bytes with which no node of the graph waits for one that the link, which
// carries `bytes_per_s` from the iteration's beginning on, still has to bring.
Bytes prefix_for(const ArrivalPlan& plan, int64_t bytes_per_s);

// The same where nodes are enqueued and nobody knows when each runs: a request that found `kept`
// bytes in the pool took so much longer than one whose image is there, and each byte more that
// stays lets all behind it come sooner by the time in which the link carries one.
Bytes prefix_for_exposed(Bytes kept, Duration exposed, int64_t bytes_per_s);

// What is known of a graph whose device work is recorded, while its image comes.
struct RecordedArrival {
  Bytes missing;      // what the link still has to bring
  Duration by_nodes;  // node by node, with the image there; 0: not known
  Duration replayed;  // the recording, with the image there; 0: not known
};

// Whether the recording, which can begin when all bytes are there, ends before nodes that wait for
// their own bytes could: those take no less than by themselves (and no less than the link, which
// the recording waits for too).
bool replay_is_sooner(const RecordedArrival& graph, int64_t bytes_per_s);

// What stays of each image when it leaves: what its measured times ask for, the same share of all,
// or nothing.
struct PrefixRule {
  enum class Kind : uint8_t { by_times, share, none };
  Kind kind = Kind::by_times;
  uint32_t percent = 0;  // of a share
};

// "auto", "none", or a share such as "25%" (1 to 99). Error invalid_argument, with what to give.
Result<PrefixRule> parse_prefix_rule(const std::string& text);

}  // namespace laneway::pipeline

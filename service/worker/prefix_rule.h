// How much of each image should stay in the pool when it leaves: by the rule of pipeline/prefix.h,
// from what the link carried and what the nodes took when the image came back the last time; or the
// same share of every image; or nothing. The worker tells the core, which keeps as much where
// nobody else needs the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace laneway::service {

struct ArrivingImage;
struct IterationResult;
struct WorkerContext;
struct WorkerGraph;
struct WorkerJob;

struct PrefixRule {
  enum class Kind : uint8_t { by_times, share, none };
  Kind kind = Kind::by_times;
  uint32_t percent = 0;  // of a share
};

// "auto", "none", or a share such as "25%" (1 to 99). Error invalid_argument, with what to give.
Result<PrefixRule> parse_prefix_rule(const std::string& text);

// The job's image came, so many bytes of it by the link.
void note_link_rate(WorkerJob& job, Bytes bytes, Duration took);
// The job's image was placed for the first time.
void wish_for_share(WorkerContext& context, WorkerJob& job);
struct IterationSpan {
  TimePoint start;
  Duration held;  // it was paused for so long
};
// What an iteration of `graph` has taken, without its pauses and its waits for its image. From one
// that ran to its end behind its arriving image, and was not paused, the job's wish follows.
// Requires: the caller has set WorkerJob::running; the mutex is not held.
//
// On devices nodes are enqueued, and the wish follows from what the iteration took beyond one whose
// image is there (note_device_iteration).
Duration spent(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
               const std::optional<ArrivingImage>& arriving, const IterationResult& result,
               const IterationSpan& times);

// How an iteration ran on a device that runs behind.
struct DeviceIteration {
  bool planned = true;
  bool replayed = false;      // a recording did a part of it, or all
  bool paused = false;        // others held it for some time
  std::optional<Bytes> kept;  // so much of its image was there when it began to arrive
};
DeviceIteration device_iteration(const IterationResult& result,
                                 const std::optional<ArrivingImage>& arriving, Duration held);
// It was completed. WorkerGraph::times, and the job's wish, follow. Requires: as spent.
void note_device_iteration(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
                           const DeviceIteration& ran, Duration took);

// What an iteration of the graph needs that begins while its image arrives, without what the caller
// adds. Requires: as spent.
ArrivingImage behind_arrival(WorkerContext& context, WorkerJob& job, WorkerGraph& graph);

}  // namespace laneway::service

// How iterations use an image that may be on its way, and what follows from that: how much of each
// image should stay in the pool when it leaves, by the rule of pipeline/prefix.h, from what the
// link carried and what the nodes took when the image came back the last time. The worker tells the
// core, which keeps as much where nobody else needs the room.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "service/worker/run/arriving_runner.h"

namespace laneway::service {

struct IterationResult;
struct WorkerContext;
struct WorkerGraph;
struct WorkerJob;

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

// An iteration of `graph` begins. Nothing when the image is whole, and then its copy is out of date
// if the graph writes; else what run_iteration needs. `on_wait` (may be empty) is told of its
// waits. Requires: the caller has set WorkerJob::running.
std::optional<ArrivingImage> begin_to_use(WorkerContext& context, WorkerJob& job,
                                          WorkerGraph& graph,
                                          std::function<void(bool waits)> on_wait);
// Why the job is over whose image did not come back.
Error lost_image(WorkerContext& context, const WorkerJob& job);

}  // namespace laneway::service

#include "service/worker/images/image_use.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "pipeline/arrival.h"
#include "pipeline/prefix.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/run/iteration.h"

namespace laneway::service {
namespace {

// What was measured over fewer bytes says more about a thread's wake-up than about the link.
constexpr Bytes kMeasured = kib(256);
// Wishes that differ by less than this part of the image are the same one.
constexpr int64_t kSame = 32;

// Else nodes are enqueued, and when they are says nothing of when they run.
bool runs_when_called(const WorkerContext& context) {
  return context.backend.device().capabilities().pool_is_addressable;
}

void wish(WorkerContext& context, WorkerJob& job, Bytes bytes) {
  const Bytes image = job.torch->layout().total();
  {
    const BookkeepingLock lock(context.mutex);
    const int64_t change = std::abs(bytes.count() - job.prefix_wanted.count());
    const bool appears = (bytes == Bytes()) != (job.prefix_wanted == Bytes());
    if (change == 0 || (!appears && change < image.count() / kSame)) return;
    job.prefix_wanted = bytes;
  }
  context.events.post(lanes::PrefixWanted{.job = job.id, .bytes = bytes});
}

// One of the job's graphs would not have to wait for its image if that much of it were there.
void wish_for(WorkerContext& context, WorkerJob& job, WorkerGraph& graph, Bytes prefix) {
  Bytes most;
  {
    const BookkeepingLock lock(context.mutex);
    graph.prefix = prefix;
    for (const auto& [number, one] : job.graphs) most = std::max(most, one->prefix);
  }
  wish(context, job, most);
}

// An iteration of `graph` ran to its end behind its arriving image.
void note_arrival(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
                  const ArrivingImage& arriving) {
  const int64_t rate = job.link_rate.load();
  if (context.prefix_rule.kind != pipeline::PrefixRule::Kind::by_times || rate == 0) return;
  if (arriving.starts.size() != arriving.needs.size()) return;
  std::vector<Bytes> needs(arriving.needs.begin(), arriving.needs.end());
  // Whoever writes, and the answer, waits for all of it.
  const size_t first = std::min(graph.torch->runner().first_write(), needs.size() - 1);
  std::fill(needs.begin() + static_cast<std::ptrdiff_t>(first), needs.end(),
            job.torch->layout().total());
  wish_for(context, job, graph, pipeline::prefix_for({needs, arriving.starts}, rate));
}

// What an iteration of the graph needs that begins while its image arrives, without what
// begin_to_use adds.
ArrivingImage behind_arrival(WorkerContext& context, WorkerJob& job, WorkerGraph& graph) {
  if (graph.arrival_needs.empty()) {
    graph.arrival_needs = pipeline::arrival_needs(graph.torch->graph(), job.torch->layout());
  }
  ArrivingImage arriving{.arrival = job.arrival,
                         .needs = graph.arrival_needs,
                         .before_writes = {},
                         .on_wait = {},
                         .clock = context.clock};
  if (runs_when_called(context)) return arriving;
  DeviceTimes times;
  {
    const BookkeepingLock lock(context.mutex);
    arriving.kept = job.life.prefix.size;
    times = graph.times;
  }
  const Bytes missing = std::max(Bytes(), graph.arrival_needs.back() - job.arrival.arrived());
  const pipeline::RecordedArrival recorded{
      .missing = missing, .by_nodes = times.by_nodes, .replayed = times.replayed};
  if (pipeline::replay_is_sooner(recorded, job.link_rate.load())) {
    arriving.recorded = graph.torch.get();
  }
  return arriving;
}

}  // namespace

void note_link_rate(WorkerJob& job, Bytes bytes, Duration took) {
  if (bytes < kMeasured || took <= Duration()) return;
  job.link_rate.store(static_cast<int64_t>(static_cast<double>(bytes.count()) / took.seconds()));
}

void wish_for_share(WorkerContext& context, WorkerJob& job) {
  if (context.prefix_rule.kind != pipeline::PrefixRule::Kind::share || !context.outside.exist())
    return;
  wish(context, job,
       Bytes(job.torch->layout().total().count() / 100 * context.prefix_rule.percent));
}

Duration spent(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
               const std::optional<ArrivingImage>& arriving, const IterationResult& result,
               const IterationSpan& times) {
  const Duration took = context.clock.now() - times.start - times.held;
  const bool whole = result.end == IterationEnd::completed && times.held == Duration();
  if (whole && !runs_when_called(context)) {
    note_device_iteration(context, job, graph, device_iteration(result, arriving, times.held),
                          took);
  }
  if (!arriving) return took;
  if (whole && result.was_planned && runs_when_called(context)) {
    note_arrival(context, job, graph, *arriving);
  }
  return took - arriving->waited;
}

DeviceIteration device_iteration(const IterationResult& result,
                                 const std::optional<ArrivingImage>& arriving, Duration held) {
  return {.planned = result.was_planned,
          .replayed = result.use.skipped,
          .paused = held > Duration(),
          .kept = arriving ? std::optional(arriving->kept) : std::nullopt};
}

void note_device_iteration(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
                           const DeviceIteration& ran, Duration took) {
  if (!ran.planned || ran.paused) return;
  Duration ready;
  {
    const BookkeepingLock lock(context.mutex);
    DeviceTimes& times = graph.times;
    if (!ran.replayed) {
      const bool first = times.by_nodes == Duration();
      times.by_nodes = first ? took : std::min(times.by_nodes, took);
    } else if (!ran.kept) {
      times.replayed = took;
    }
    ready = times.replayed > Duration() ? times.replayed : times.by_nodes;
  }
  const int64_t rate = job.link_rate.load();
  if (!ran.kept || context.prefix_rule.kind != pipeline::PrefixRule::Kind::by_times || rate == 0)
    return;
  const Duration exposed = took - ready;
  const Bytes image = job.torch->layout().total();
  wish_for(context, job, graph,
           std::min(image, pipeline::prefix_for_exposed(*ran.kept, exposed, rate)));
}

std::optional<ArrivingImage> begin_to_use(WorkerContext& context, WorkerJob& job,
                                          WorkerGraph& graph,
                                          std::function<void(bool waits)> on_wait) {
  const auto outdate = [&context, &job, writes = !graph.writes.empty()] {
    if (writes) outdate_copy(context, job);
  };
  if (job.arrival.is_whole()) {
    outdate();
    return std::nullopt;
  }
  ArrivingImage arriving = behind_arrival(context, job, graph);
  arriving.before_writes = outdate;
  arriving.on_wait = on_wait ? std::move(on_wait) : [](bool) {};
  return arriving;
}

Error lost_image(WorkerContext& context, const WorkerJob& job) {
  const BookkeepingLock lock(context.mutex);
  return job.over();
}

}  // namespace laneway::service

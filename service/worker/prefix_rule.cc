#include "service/worker/prefix_rule.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "pipeline/prefix.h"
#include "service/worker/iteration.h"
#include "service/worker/worker_context.h"
#include "service/worker/worker_job.h"

namespace laneway::service {
namespace {

// What was measured over fewer bytes says more about a thread's wake-up than about the link.
constexpr Bytes kMeasured = kib(256);
// Wishes that differ by less than this part of the image are the same one.
constexpr int64_t kSame = 32;

bool can_keep_prefix(const WorkerContext& context) {
  return context.backend.device().capabilities().pool_is_addressable && context.outside.exist();
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

// An iteration of `graph` ran to its end behind its arriving image.
void note_arrival(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
                  const ArrivingImage& arriving) {
  const int64_t rate = job.link_rate.load();
  if (context.prefix_rule.kind != PrefixRule::Kind::by_times || rate == 0) return;
  // Where nodes are enqueued, `starts` says nothing about when they run.
  if (!can_keep_prefix(context)) return;
  if (arriving.starts.size() != arriving.needs.size()) return;
  std::vector<Bytes> needs(arriving.needs.begin(), arriving.needs.end());
  // Whoever writes, and the answer, waits for all of it.
  const size_t first = std::min(graph.torch->runner().first_write(), needs.size() - 1);
  std::fill(needs.begin() + static_cast<std::ptrdiff_t>(first), needs.end(),
            job.torch->layout().total());
  const Bytes prefix = pipeline::prefix_for({needs, arriving.starts}, rate);
  Bytes most;
  {
    const BookkeepingLock lock(context.mutex);
    graph.prefix = prefix;
    for (const auto& [number, one] : job.graphs) most = std::max(most, one->prefix);
  }
  wish(context, job, most);
}

}  // namespace

Result<PrefixRule> parse_prefix_rule(const std::string& text) {
  if (text == "auto") return PrefixRule{};
  if (text == "none") return PrefixRule{.kind = PrefixRule::Kind::none, .percent = 0};
  char* end = nullptr;
  const unsigned long percent = std::strtoul(text.c_str(), &end, 10);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789%") == std::string::npos;
  if (digits && std::string(end) == "%" && percent >= 1 && percent <= 99) {
    return PrefixRule{.kind = PrefixRule::Kind::share, .percent = static_cast<uint32_t>(percent)};
  }
  return Error{ErrorCode::invalid_argument, "give auto, none, or a share from 1% to 99%"};
}

void note_link_rate(WorkerJob& job, Bytes bytes, Duration took) {
  if (bytes < kMeasured || took <= Duration()) return;
  job.link_rate.store(static_cast<int64_t>(static_cast<double>(bytes.count()) / took.seconds()));
}

void wish_for_share(WorkerContext& context, WorkerJob& job) {
  if (context.prefix_rule.kind != PrefixRule::Kind::share || !can_keep_prefix(context)) return;
  wish(context, job,
       Bytes(job.torch->layout().total().count() / 100 * context.prefix_rule.percent));
}

Duration spent(WorkerContext& context, WorkerJob& job, WorkerGraph& graph,
               const std::optional<ArrivingImage>& arriving, const IterationResult& result,
               const IterationSpan& times) {
  const Duration took = context.clock.now() - times.start - times.held;
  if (!arriving) return took;
  const bool whole = result.end == IterationEnd::completed && result.was_planned;
  if (whole && times.held == Duration()) {
    note_arrival(context, job, graph, *arriving);
  }
  return took - arriving->waited;
}

}  // namespace laneway::service

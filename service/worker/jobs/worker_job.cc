#include "service/worker/jobs/worker_job.h"

#include <algorithm>
#include <utility>

#include "lanes/state/event.h"
#include "service/worker/jobs/ring_work.h"
#include "service/worker/jobs/worker_context.h"

namespace laneway::service {

GraphHandle WorkerJob::first_graph(NewJob& from) {
  from.origin.user = from.user;
  auto first =
      std::make_shared<WorkerGraph>(0, std::move(from.torch.graph), std::move(from.origin));
  from.offer.ephemeral = first->plan.need;
  from.offer.iteration_estimate = first->plan.planned_took;
  return first;
}

WorkerJob::WorkerJob(NewJob& from, GraphHandle first)
    : offer(std::move(from.offer)),
      user(from.user),
      torch(std::move(from.torch.job)),
      journal(from.journal),
      initial(std::move(from.initial)),
      recovered(from.recovered) {
  graphs[first->number] = std::move(first);
  next_graph = 1;
}

void WorkerJob::served() {
  if (suspected > 0 && --suspected == 0) acquit();
}

void WorkerJob::acquit() {
  suspected = 0;
  if (journal) journal->acquit();
}

bool WorkerJob::ready() const {
  if (!queue.empty() || guard.restore_pending) return true;
  return !closing && std::any_of(links.begin(), links.end(),
                                 [](const auto& link) { return link->ring->ready(); });
}

void WorkerJob::run_again(const std::shared_ptr<Work>& work, bool did_not_fit) {
  queue.push_front(work);
  if (did_not_fit) outgrew = work;
}

std::shared_ptr<Work> WorkerJob::take_next() {
  if (!queue.empty()) {
    std::shared_ptr<Work> work = std::move(queue.front());
    queue.pop_front();
    return work;
  }
  if (closing) return nullptr;
  for (size_t tried = 0; tried < links.size(); ++tried) {
    Link& link = *links[next_link % links.size()];
    next_link = (next_link + 1) % links.size();
    if (std::shared_ptr<Work> work = take_from(link)) return work;
  }
  return nullptr;
}

std::shared_ptr<Work> WorkerJob::take_access(const pipeline::OutsideImages& outside) {
  if (!queue.empty() || closing) return nullptr;
  for (const auto& link : links) {
    const std::optional<RingKind> kind = link->ring->next_kind();
    if (!kind || kind == RingKind::iteration) continue;
    if (!is_accessible(kind == RingKind::write_state, outside)) return nullptr;
    std::shared_ptr<Work> work = take_from(*link);
    if (work == nullptr || !work->is_iteration()) return work;
    queue.push_back(std::move(work));  // its client changed what it had written
    return nullptr;
  }
  return nullptr;
}

std::shared_ptr<Work> WorkerJob::take_from(Link& link) {
  const std::optional<RingRequest> request = link.ring->take();
  if (!request) {
    if (link.ring->broken()) {
      link.ring->close({ErrorCode::refused, "the ring's counters make no sense any more"});
    }
    return nullptr;
  }
  const auto graph = graphs.find(request->graph);
  const auto segment = link.segments.find(request->segment);
  const bool iteration = request->kind == RingKind::iteration;
  const std::shared_ptr<RingWork> work = free_work(link);
  work->start(*request, iteration && graph != graphs.end() ? graph->second : nullptr,
              segment != link.segments.end() ? segment->second : nullptr);
  return work;
}

std::shared_ptr<RingWork> WorkerJob::free_work(Link& link) {
  for (const auto& work : link.works) {
    if (work->is_free()) return work;
  }
  return link.works.emplace_back(
      std::make_shared<RingWork>(*this, link.number, link.is_owners, link.ring));
}

pipeline::SlotPlaces WorkerJob::places(memory::PoolAccess& pool,
                                       const pipeline::OutsideImages& outside) const {
  if (phase == Phase::placed) return {pool, image, torch->layout()};
  return is_away() ? pipeline::SlotPlaces(outside.in_memory(life.copy), torch->layout())
                   : initial.places();
}

bool WorkerJob::is_accessible(bool writes, const pipeline::OutsideImages& outside) const {
  if (!arrival.is_whole()) return false;
  // A file may take any time: it is read on the image's way into the pool alone, and so is a store
  // that is no memory.
  if (phase == Phase::waiting && !clean) return !initial.lies_in_files();
  if (!is_away()) return true;
  // What a predecessor left half-written is restored in the pool.
  return outside.in_memory(life.copy) != nullptr && !writes && !guard.restore_pending;
}

lanes::ImageLife WorkerJob::image_life() const {
  lanes::ImageLife told = life;
  // Its lane is known, and its range follows.
  if (admitted.valid() && !told.in_pool()) told.come(told.prefix);
  // What grows to the whole image is a part of the image's own range.
  if (placing && told.prefix.offset == image_offset) told.prefix = {};
  return told;
}

bool WorkerJob::outdate_copy() {
  if (!clean) return false;
  change_image([](lanes::ImageLife& its) { (void)its.outdate(); });
  write_ahead([](lanes::ImageLife&) {});  // as it is
  return true;
}

Status WorkerJob::check_open() const {
  if (closing || phase == Phase::ended) return closed();
  return {};
}

Error WorkerJob::closed() const {
  if (end_reason) return *end_reason;
  return {ErrorCode::unavailable, "job '" + name + "' was closed; make a new step to go on"};
}

Link* WorkerJob::find_link(uint32_t number) const {
  for (const auto& link : links) {
    if (link->number == number) return link.get();
  }
  return nullptr;
}

Error WorkerJob::over() const {
  if (end_reason) return *end_reason;
  if (close_reason) return *close_reason;
  return {ErrorCode::cancelled, "job '" + name + "' was closed before this iteration ran"};
}

void WorkerJob::close_links() {
  for (const auto& link : links) link->ring->close(over());
}

Duration WorkerJob::iteration_estimate() const {
  return graphs.empty() ? Duration() : graphs.begin()->second->plan.planned_took;
}

Bytes WorkerJob::need() const {
  Bytes highest;
  for (const auto& [number, graph] : graphs) highest = std::max(highest, graph->plan.need);
  return highest;
}

IterationKind WorkerJob::kind_of(const WorkerGraph& graph, bool planned) const {
  const auto trains = [](const WorkerGraph& one) {
    return one.torch->graph().kind == lanes::GraphKind::train;
  };
  const bool counts =
      trains(graph) || std::none_of(graphs.begin(), graphs.end(),
                                    [&](const auto& other) { return trains(*other.second); });
  if (!counts) return IterationKind::uncounted;
  return planned ? IterationKind::counted : IterationKind::probe;
}

void WorkerJob::account(const OpenTurn& turn) {
  iterations += turn.iterations();
  busy += turn.busy();
  uncounted += turn.uncounted().count;
  const lanes::IterationSum of_turn = turn.measured();
  measured.count += of_turn.count;
  measured.busy += of_turn.busy;
}

uint32_t WorkerJob::add(std::unique_ptr<adaptor::DeviceGraph> graph, GraphOrigin origin,
                        std::optional<uint32_t> wanted) {
  const uint32_t number = wanted.value_or(next_graph);
  next_graph = std::max(next_graph, number + 1);
  origin.user = user;
  graphs[number] = std::make_shared<WorkerGraph>(number, std::move(graph), std::move(origin));
  return number;
}

void outdate_copy(WorkerContext& context, WorkerJob& job) {
  if (!job.clean) return;
  {
    const BookkeepingLock lock(context.mutex);
    if (!job.outdate_copy()) return;
  }
  context.events.leave(lanes::ImageDirty{.job = job.id});
}

}  // namespace laneway::service

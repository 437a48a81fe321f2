#include "service/worker/process/job_service.h"

#include <exception>
#include <string>
#include <utility>

#include "base/limits.h"
#include "memory/os/owned_descriptor.h"
#include "service/wire/limits.h"
#include "service/worker/jobs/job_json.h"
#include "service/worker/process/graph_file.h"

namespace laneway::service {
namespace {

using wire::from_worker::Any;
using wire::from_worker::Reply;

Reply reply(uint64_t request, const Status& status) {
  Reply answer;
  answer.request = request;
  answer.ok = status.ok();
  if (status) return answer;
  answer.code = status.error().code;
  answer.message = status.error().message.substr(0, limits::kMaxMessageBytes / 2);
  return answer;
}

Error wrong_descriptors(const char* what, size_t wanted, size_t got) {
  return Error{ErrorCode::invalid_argument, std::string(what) + " comes with " +
                                                std::to_string(wanted) + " descriptors, not " +
                                                std::to_string(got)};
}

// A job's first bytes: what came behind its graph.
Result<pipeline::InitialImage> initial_image(const wire::JobSpec& spec,
                                             std::vector<Descriptor> fds) {
  pipeline::InitialImage initial;
  if (spec.has_initial) {
    auto mapped = pipeline::InitialImage::map(spec.slots, fds[1].release());
    if (!mapped) return mapped;
    initial = std::move(mapped).value();
  } else {
    initial = pipeline::InitialImage(spec.slots);
  }
  if (spec.weights.files.empty()) return initial;
  std::vector<memory::OwnedDescriptor> opened;
  for (size_t i = spec.has_initial ? 2 : 1; i < fds.size(); ++i) {
    opened.emplace_back(fds[i].release());
  }
  auto files = pipeline::WeightFileReader::make(spec.slots, spec.weights, std::move(opened));
  if (!files) return files.error();
  initial.set_files(std::move(files).value());
  return initial;
}

lanes::JobOffered offer_of(const wire::to_worker::AddJob& message, const adaptor::DeviceJob& job) {
  return {.job = JobId(message.job),
          .session = SessionId(message.session),
          .options = message.spec.options,
          .persistent = job.layout().total(),
          .ephemeral = Bytes(),
          .context_key = job.context_key()};
}

}  // namespace

Result<JobHandle> JobService::find(uint64_t job) {
  if (JobHandle found = worker_.find_job(JobId(job))) return found;
  // Who asks has not heard of the end yet.
  return worker_.why_over(JobId(job))
      .value_or(Error{ErrorCode::unavailable,
                      "job " + std::to_string(job) + " is over; make a new step to go on"});
}

JobService::Answer JobService::handle(const wire::to_worker::AddJob& message,
                                      std::vector<Descriptor> fds) {
  JobHandle job = worker_.find_job(JobId(message.job));
  if (job == nullptr) {
    Result<JobHandle> made = make_job(message, std::move(fds));
    if (!made) return reply(message.request, made.error());
    job = std::move(made).value();
  }
  return job_added(message, *job);
}

JobService::Answer JobService::job_added(const wire::to_worker::AddJob& message, WorkerJob& job) {
  wire::from_worker::JobAdded added;
  added.request = message.request;
  added.job = message.job;
  // It may have been dropped since.
  if (const auto first = worker_.find_graph(job, 0)) added.graph = first.value()->info;
  added.persistent = static_cast<uint64_t>(job.offer.persistent.count());
  added.ephemeral = static_cast<uint64_t>(worker_.need(job).count());
  added.context_key = job.offer.context_key;
  added.iteration_estimate = job.offer.iteration_estimate;
  return added;
}

Status JobService::check_room(uint32_t user, std::span<const std::byte> graph,
                              std::span<const ImageSlot> slots) {
  if (Status threads = graph_room_.check_threads(graph); !threads) return threads;
  // Until then they are those that a predecessor let in.
  if (!told_all_ || worker_.graphs().find(graph, slots) != nullptr) return {};
  return graph_room_.check_memory(user, Bytes(static_cast<int64_t>(graph.size())));
}

Result<GraphCache::Job> JobService::made_job(JobId id, const std::vector<ImageSlot>& slots,
                                             std::span<const std::byte> graph) {
  if (auto prepared = prepared_.take_job(id, slots, graph)) return *std::move(prepared);
  return worker_.graphs().make_job(backend_, slots, graph, worker_.usable());
}

Result<JobHandle> JobService::make_job(const wire::to_worker::AddJob& message,
                                       std::vector<Descriptor> fds) {
  const wire::JobSpec& spec = message.spec;
  const size_t wanted = spec.descriptors();
  if (fds.size() != wanted) return wrong_descriptors("a job", wanted, fds.size());
  if (message.record >= limits::kMaxJobs || message.job == 0) {
    return Error{ErrorCode::invalid_argument, "job " + std::to_string(message.job) +
                                                  " has no place in the journal: record " +
                                                  std::to_string(message.record)};
  }
  JobJournal journal = journal_.job(message.record);
  const JobId id(message.job);
  const bool recovered = journal.job() == id;
  if (recovered && journal.is_over()) {
    return Error{ErrorCode::unavailable, "job '" + spec.options.name + "' is over"};
  }
  Result<std::vector<std::byte>> graph = read_graph(std::move(fds[0]));
  if (!graph) return graph.error();
  const std::vector<ImageSlot>& slots = spec.slots;
  if (Status room = check_room(message.user, graph.value(), slots); !room) return room.error();
  auto torch = made_job(id, slots, graph.value());
  if (!torch) return torch.error();
  graph_room_.note(message.user, torch.value().origin.known);
  adaptor::DeviceJob& made = *torch.value().made.job;
  std::vector<std::byte> random;
  if (recovered) {
    const auto kept = journal.random_state(limits::kRandomStateBytes);
    random.assign(kept.begin(), kept.end());
  } else {
    const auto* given = reinterpret_cast<const std::byte*>(spec.random_state.data());
    random.assign(given, given + spec.random_state.size());
  }
  if (!random.empty()) {
    if (Status set = made.set_random_state(random); !set) return set.error();
  }
  // One that is larger than the pool will be refused, and has no use for its bytes.
  pipeline::InitialImage initial;
  if (made.layout().total() <= worker_.usable()) {
    auto given = initial_image(spec, std::move(fds));
    if (!given) return given.error();
    initial = std::move(given).value();
  }
  if (!recovered) journal.open(id, made.random_state());
  lanes::JobOffered offer = offer_of(message, *torch.value().made.job);
  JobHandle job = worker_.add_job({.offer = std::move(offer),
                                   .torch = std::move(torch.value().made),
                                   .origin = std::move(torch.value().origin),
                                   .initial = std::move(initial),
                                   .user = message.user,
                                   .journal = journal,
                                   .recovered = recovered});
  if (job == nullptr) return Error{ErrorCode::unavailable, "the worker is closing"};
  return job;
}

JobService::Answer JobService::handle(const wire::to_worker::AddGraph& message,
                                      std::vector<Descriptor> fds) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  wire::from_worker::GraphAdded added;
  added.request = message.request;
  added.job = message.job;
  if (message.numbered) {
    if (const auto known = worker_.find_graph(*job.value(), message.number)) {
      added.graph = known.value()->info;
      return added;
    }
  }
  if (fds.size() != 1) return reply(message.request, wrong_descriptors("a graph", 1, fds.size()));
  const auto graph = read_graph(std::move(fds[0]));
  if (!graph) return reply(message.request, graph.error());
  WorkerJob& of = *job.value();
  if (Status room = check_room(of.user, graph.value(), of.torch->layout().slots()); !room) {
    return reply(message.request, room);
  }
  std::optional<uint32_t> wanted;
  if (message.numbered) wanted = message.number;
  auto prepared = message.numbered
                      ? prepared_.take_graph(JobId(message.job), message.number, graph.value())
                      : std::nullopt;
  const auto number = worker_.add_graph(*job.value(), graph.value(), wanted, std::move(prepared));
  if (!number) return reply(message.request, number.error());
  const auto made = worker_.find_graph(*job.value(), number.value());
  if (!made) return reply(message.request, made.error());
  graph_room_.note(of.user, made.value()->origin.known);
  added.graph = made.value()->info;
  return added;
}

JobService::Answer JobService::handle(const wire::to_worker::DropGraph& message) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  return reply(message.request, worker_.drop_graph(*job.value(), message.number));
}

JobService::Answer JobService::handle(const wire::to_worker::AddLink& message,
                                      std::vector<Descriptor> fds) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  if (worker_.links().has(*job.value(), message.link)) return reply(message.request, {});
  if (fds.size() != 3) return reply(message.request, wrong_descriptors("a link", 3, fds.size()));
  auto ring = RingServer::attach(std::move(fds[0]), std::move(fds[1]), std::move(fds[2]));
  if (!ring) return reply(message.request, ring.error());
  return reply(message.request, worker_.links().add(job.value(), message.link, message.owners,
                                                    std::move(ring).value()));
}

JobService::Answer JobService::handle(const wire::to_worker::DropLink& message) {
  const Result<JobHandle> job = find(message.job);
  if (job) worker_.links().drop(job.value(), message.link);
  return reply(message.request, {});
}

JobService::Answer JobService::handle(const wire::to_worker::AddSegment& message,
                                      std::vector<Descriptor> fds) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  if (fds.size() != 1) return reply(message.request, wrong_descriptors("a segment", 1, fds.size()));
  auto memory =
      memory::SharedMemory::attach(fds[0].release(), Bytes(static_cast<int64_t>(message.bytes)));
  if (!memory) return reply(message.request, memory.error());
  return reply(message.request,
               worker_.links().add_segment(*job.value(), message.link, message.segment,
                                           std::move(memory).value()));
}

JobService::Answer JobService::handle(const wire::to_worker::DropSegment& message) {
  const Result<JobHandle> job = find(message.job);
  if (job) worker_.links().drop_segment(*job.value(), message.link, message.segment);
  return reply(message.request, {});
}

JobService::Answer JobService::handle(const wire::to_worker::JobReport& message) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  wire::from_worker::JobText text;
  text.request = message.request;
  text.text = job_json(*job.value(), worker_.plans(*job.value()), worker_.recovery(*job.value()),
                       "null", message.with_tapes);
  if (text.text.size() > limits::kMaxMessageBytes / 2) {
    return reply(message.request,
                 Error{ErrorCode::refused, "the report has " + std::to_string(text.text.size()) +
                                               " bytes: ask for it without tapes"});
  }
  return text;
}

JobService::Answer JobService::handle(const wire::to_worker::ReleaseJob& message) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  return reply(message.request, worker_.release(job.value()));
}

JobService::Answer JobService::handle(const wire::to_worker::SetResidency& message) {
  const Result<JobHandle> job = find(message.job);
  if (!job) return reply(message.request, job.error());
  return reply(message.request, worker_.want_residency(*job.value(), message.wanted));
}

std::optional<JobService::Answer> JobService::handle(const wire::to_worker::CloseJob& message) {
  const JobHandle job = worker_.find_job(JobId(message.job));
  if (job == nullptr) {
    wire::from_worker::JobGone gone;
    gone.job = message.job;
    return gone;
  }
  const std::string reason =
      message.reason.empty() ? "job '" + job->name + "' was closed" : message.reason;
  worker_.begin_close(job, {message.code, reason});
  return std::nullopt;
}

}  // namespace laneway::service

#include "service/client/client_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/slot_offsets.h"
#include "memory/os/shared_memory.h"
#include "service/wire/layout.h"
#include "service/wire/limits.h"

namespace laneway::service {
namespace {

// One wait asks the broker so often; others take their turns between.
constexpr int64_t kWaitSliceMs = 200;
static_assert(kWaitSliceMs <= limits::kMaxWaitMs);

Result<memory::SharedMemory> memory_with(const char* name, std::span<const std::byte> bytes) {
  auto memory = memory::SharedMemory::create(name, Bytes(static_cast<int64_t>(bytes.size())));
  if (memory) std::memcpy(memory.value().data(), bytes.data(), bytes.size());
  return memory;
}

Result<memory::SharedMemory> graph_memory(std::span<const std::byte> graph) {
  if (graph.empty() || graph.size() > limits::kMaxGraphBytes) {
    return Error{ErrorCode::invalid_graph, "a graph of " + std::to_string(graph.size()) +
                                               " bytes; it must have some, and at most " +
                                               std::to_string(limits::kMaxGraphBytes)};
  }
  return memory_with("laneway-graph", graph);
}

wire::JobSpec spec_of(const JobRequest& request) {
  wire::JobSpec spec{.options = request.options,
                     .slots = request.slots,
                     .random_state = {},
                     .has_initial = false,
                     .weights = request.weights};
  const auto* random = reinterpret_cast<const uint8_t*>(request.random_state.data());
  spec.random_state.assign(random, random + request.random_state.size());
  for (size_t i = 0; i < request.slots.size(); ++i) {
    const bool given = request.initial[i] != nullptr && request.slots[i].bytes > 0;
    spec.has_initial = spec.has_initial || given;
  }
  return spec;
}

// The slots' first bytes, each written once, where the worker looks for them.
Result<memory::SharedMemory> initial_memory(const JobRequest& request) {
  const SlotOffsets places = slot_offsets(request.slots);
  auto memory =
      memory::SharedMemory::create("laneway-initial", Bytes(static_cast<int64_t>(places.total)));
  if (!memory) return memory;
  for (size_t i = 0; i < request.slots.size(); ++i) {
    const uint64_t bytes = request.slots[i].bytes;
    if (request.initial[i] == nullptr || bytes == 0) continue;
    std::memcpy(memory.value().data() + places.offsets[i], request.initial[i], bytes);
  }
  return memory;
}

}  // namespace

Result<std::shared_ptr<ClientJob>> ClientJob::create(std::shared_ptr<Connection> connection,
                                                     const JobRequest& request,
                                                     std::span<const std::byte> graph,
                                                     const Clock& clock) {
  auto graph_bytes = graph_memory(graph);
  if (!graph_bytes) return graph_bytes.error();
  wire::CreateJob create{.spec = spec_of(request), .torch_version = connection->torch_version()};
  std::vector<int> fds = {graph_bytes.value().descriptor()};
  std::optional<memory::SharedMemory> initial;
  if (create.spec.has_initial) {
    auto made = initial_memory(request);
    if (!made) return made.error();
    initial.emplace(std::move(made).value());
    fds.push_back(initial->descriptor());
  }
  fds.insert(fds.end(), request.file_descriptors.begin(), request.file_descriptors.end());
  JobForm form{.name = {},
               .job_class = create.spec.options.job_class,
               .slots = create.spec.slots,
               .graphs = {}};
  auto reply = connection->request_for<wire::JobCreated>(std::move(create), fds);
  if (!reply) return reply.error();
  wire::JobCreated& created = reply.value().first;
  form.name = std::move(created.name);
  form.graphs.push_back(std::move(created.graph));
  return make(std::move(connection),
              {.job = created.job,
               .link = created.link,
               .attached = false,
               .form = std::move(form),
               .fds = std::move(reply.value().second)},
              clock);
}

Result<std::shared_ptr<ClientJob>> ClientJob::attach(std::shared_ptr<Connection> connection,
                                                     const std::string& name, const Clock& clock) {
  auto reply = connection->request_for<wire::JobAttached>(wire::AttachJob{.name = name});
  if (!reply) return reply.error();
  wire::JobAttached& attached = reply.value().first;
  JobForm form{.name = std::move(attached.name),
               .job_class = attached.job_class,
               .slots = std::move(attached.slots),
               .graphs = std::move(attached.graphs)};
  return make(std::move(connection),
              {.job = attached.job,
               .link = attached.link,
               .attached = true,
               .form = std::move(form),
               .fds = std::move(reply.value().second)},
              clock);
}

Result<std::shared_ptr<ClientJob>> ClientJob::make(std::shared_ptr<Connection> connection,
                                                   Made made, const Clock& clock) {
  if (made.fds.size() != 3) {
    return Error{ErrorCode::internal, "the service sent " + std::to_string(made.fds.size()) +
                                          " descriptors for a job's link instead of 3"};
  }
  auto ring = RingClient::attach(std::move(made.fds[0]), std::move(made.fds[1]),
                                 std::move(made.fds[2]), clock);
  if (!ring) {
    (void)connection->request(
        wire::CloseJob{.job = made.job, .link = made.attached ? made.link : 0});
    return ring.error();
  }
  return std::shared_ptr<ClientJob>(
      new ClientJob(std::move(connection), std::move(made), std::move(ring).value(), clock));
}

ClientJob::ClientJob(std::shared_ptr<Connection> connection, Made made,
                     std::shared_ptr<RingClient> ring, const Clock& clock)
    : clock_(clock),
      connection_(std::move(connection)),
      id_(made.job),
      closing_link_(made.attached ? made.link : 0),
      name_(std::move(made.form.name)),
      job_class_(made.form.job_class),
      slots_(std::move(made.form.slots)),
      ring_(std::move(ring)),
      link_(std::make_shared<JobLink>(connection_, made.job, made.link)),
      state_(std::make_shared<StatePool>(link_)) {
  for (wire::GraphInfo& graph : made.form.graphs) know(std::move(graph));
}

void ClientJob::know(wire::GraphInfo info) {
  auto graph = std::make_shared<ClientGraph>();
  graph->layout = wire::block_layout(info);
  graph->info = std::move(info);
  graph->blocks = std::make_shared<BlockPool>(link_, graph->layout.stride);
  MutexLock lock(mutex_);
  graphs_[graph->info.number] = std::move(graph);
}

Status ClientJob::check_open() const {
  if (connection_->closed()) return connection_->closed_error();
  if (!*closed_) return {};
  return Error{ErrorCode::unavailable, "job '" + name_ + "' was closed; make a new step to go on"};
}

Result<uint32_t> ClientJob::add_graph(std::span<const std::byte> graph) {
  if (Status open = check_open(); !open) return open.error();
  auto memory = graph_memory(graph);
  if (!memory) return memory.error();
  auto added = connection_->request_for<wire::GraphAdded>(wire::AddGraph{.job = id_},
                                                          {memory.value().descriptor()});
  if (!added) return added.error();
  const uint32_t number = added.value().first.graph.number;
  know(std::move(added.value().first.graph));
  return number;
}

Status ClientJob::drop_graph(uint32_t number) {
  if (Status open = check_open(); !open) return open;
  auto dropped =
      connection_->request_for<wire::Done>(wire::DropGraph{.job = id_, .number = number});
  if (!dropped) return dropped.error();
  std::shared_ptr<const ClientGraph> graph;  // its blocks go when nobody has one any more
  {
    MutexLock lock(mutex_);
    const auto found = graphs_.find(number);
    if (found == graphs_.end()) return {};
    graph = std::move(found->second);
    graphs_.erase(found);
  }
  graph.reset();
  link_->drop_unused();
  return {};
}

Status ClientJob::set(const JobChanges& changes) {
  if (Status open = check_open(); !open) return open;
  auto done = connection_->request_for<wire::Done>(
      wire::SetJob{.job = std::to_string(id_), .changes = changes});
  return done ? Status() : Status(done.error());
}

std::optional<Status> ClientJob::wait_placed(Duration timeout, std::string* reason) {
  const bool unlimited = timeout.ns() < 0;
  const TimePoint until = clock_.now() + timeout;
  while (true) {
    if (Status open = check_open(); !open) return open;
    if (Status open = ring_->check_open(); !open) return open;
    if (placed_) return Status();
    int64_t slice_ms = kWaitSliceMs;
    if (!unlimited) {
      const int64_t left_ms = ((until - clock_.now()).ns() + 999'999) / 1'000'000;
      slice_ms = std::clamp<int64_t>(left_ms, 0, kWaitSliceMs);
    }
    Result<Reply> reply = connection_->request(
        wire::WaitJob{.job = id_, .timeout_ms = static_cast<uint32_t>(slice_ms)});
    if (!reply) return Status(reply.error());
    const auto* waits = std::get_if<wire::JobWaits>(&reply.value().message);
    if (waits == nullptr) {
      placed_ = true;
      continue;
    }
    if (unlimited || clock_.now() < until) continue;
    *reason = waits->text;
    if (waits->estimate_s >= 0) {
      const auto estimate_s = static_cast<int64_t>(waits->estimate_s + 0.5);
      *reason += "; there should be room in about " + std::to_string(estimate_s) + " s";
    }
    return std::nullopt;
  }
}

Result<std::string> ClientJob::report(bool with_tapes) {
  if (Status open = check_open(); !open) return open.error();
  auto text =
      connection_->request_for<wire::Text>(wire::JobReport{.job = id_, .with_tapes = with_tapes});
  if (!text) return text.error();
  return std::move(text.value().first.text);
}

Result<JobForm> ClientJob::form() {
  if (Status open = check_open(); !open) return open.error();
  JobForm form{.name = name_, .job_class = job_class_, .slots = slots_, .graphs = {}};
  MutexLock lock(mutex_);
  for (const auto& [number, graph] : graphs_) form.graphs.push_back(graph->info);
  return form;
}

void ClientJob::close() {
  if (closed_->exchange(true)) return;
  // Fails only when the service is gone, or was closed here, and the job with it.
  if (!connection_->closed())
    (void)connection_->request(wire::CloseJob{.job = id_, .link = closing_link_});
  abandon();
}

void ClientJob::abandon() {
  *closed_ = true;
  ring_->abandon(
      Error{ErrorCode::cancelled, "job '" + name_ + "' was closed before this iteration ran"});
  MutexLock lock(mutex_);
  graphs_.clear();
}

}  // namespace laneway::service

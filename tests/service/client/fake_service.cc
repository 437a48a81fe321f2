#include "tests/service/client/fake_service.h"

#include <fcntl.h>

#include "base/check.h"
#include "base/slot_offsets.h"
#include "service/wire/codec.h"
#include "service/wire/layout.h"

namespace laneway::testing {
namespace {

using service::Descriptor;

constexpr wire::Token kToken = {1, 2, 3, 4};

wire::GraphInfo sum_graph() {
  return {.number = 0,
          .name = "sum",
          .inputs = {{.kind = wire::ValueKind::tensor, .bytes = FakeService::kBytes, .name = {}}},
          .outputs = {{.kind = wire::ValueKind::tensor, .bytes = FakeService::kBytes}}};
}

memory::SharedMemory attach(const Descriptor& descriptor, uint64_t bytes) {
  return memory::SharedMemory::attach(::dup(descriptor.get()), Bytes(static_cast<int64_t>(bytes)))
      .value();
}

}  // namespace

FakeService::FakeService() : lifelines_(address_.listen_lifeline()) {
  LW_CHECK(::signal(SIGPIPE, SIG_IGN) != SIG_ERR, "the signal can be ignored");
  zmq_.emplace(service::ZmqServer::open(address_.listen(), *address_).value());
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void FakeService::vanish() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  zmq_.reset();
  lifelines_.reset();
  lifeline_.reset();
  jobs_.clear();
}

void FakeService::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    handle_lifeline();
    while (auto message = zmq_->receive()) handle_message(*message);
    for (auto& [number, job] : jobs_) run_ring(job);
    wait();
  }
}

void FakeService::wait() {
  if (zmq_->readable()) return;
  std::vector<pollfd> all = {{zmq_->descriptor(), POLLIN, 0}, {lifelines_.get(), POLLIN, 0}};
  if (lifeline_) all.push_back({lifeline_->descriptor(), POLLIN, 0});
  for (auto& [number, job] : jobs_) {
    if (!job.ring->arm() && !held_) return;
    all.push_back({job.ring->wake_descriptor(), POLLIN, 0});
  }
  ::poll(all.data(), all.size(), 10);
  for (auto& [number, job] : jobs_) {
    uint64_t strokes = 0;
    [[maybe_unused]] auto count = ::read(job.ring->wake_descriptor(), &strokes, sizeof strokes);
    job.ring->disarm();
  }
}

void FakeService::handle_lifeline() {
  auto accepted = service::accept_unix(lifelines_).value();
  if (accepted) lifeline_.emplace(std::move(*accepted), service::kLifelineLimits);
  if (!lifeline_) return;
  while (true) {
    auto frame = lifeline_->receive();
    if (!frame) lifeline_.reset();
    if (!frame || !frame.value()) return;
    const auto decoded = wire::decode<wire::AnyLifeline>(frame.value()->bytes).value();
    if (const auto* message = std::get_if<wire::DescriptorMessage>(&decoded)) {
      descriptor_messages_.emplace(message->request, std::move(frame.value()->fds));
    } else {
      LW_CHECK(lifeline_->send(wire::encode(wire::LifelineReady{})).ok(), "the client reads");
    }
  }
}

void FakeService::handle_message(const service::ZmqServer::Message& message) {
  ++requests;
  handle_lifeline();
  const uint64_t number = wire::decode_header(message.bytes).value().envelope.request;
  const auto request = wire::decode<wire::AnyRequest>(message.bytes).value();
  const bool repeated = replies_.contains(number);
  std::vector<Descriptor> fds;
  if (!repeated) replies_[number] = answer(request, number, &fds);
  if (repeated && std::holds_alternative<wire::JobCreated>(replies_[number])) {
    for (const Descriptor& fd : jobs_.rbegin()->second.link) {
      fds.push_back(fd.duplicate().value());
    }
  }
  const wire::Envelope envelope{.request = number, .token = kToken};
  if (!fds.empty()) {
    LW_CHECK(lifeline_
                 ->send(wire::encode(wire::DescriptorMessage{.request = number}, envelope),
                        std::move(fds))
                 .ok(),
             "the client reads");
  }
  if (to_lose_ > 0) {
    --to_lose_;
    return;
  }
  std::vector<std::byte> reply = wire::encode(replies_[number], envelope);
  reply.at(4) = std::byte{protocol_.load()};
  zmq_->send(message.route, reply);
}

wire::AnyReply FakeService::answer(const wire::AnyRequest& request, uint64_t number,
                                   std::vector<Descriptor>* fds) {
  if (std::holds_alternative<wire::Hello>(request)) {
    if (hello_version_ != 1) {
      return wire::Failure{
          ErrorCode::unsupported,
          "message Hello has version 1 and this program speaks " + std::to_string(hello_version_)};
    }
    return wire::Welcome{.session = 1,
                         .token = kToken,
                         .server_version = "fake",
                         .device = "host",
                         .pool_bytes = 1 << 20,
                         .max_in_flight = service::kRingSlots,
                         .kernels = "cpu"};
  }
  if (const auto* made = std::get_if<wire::CreateJob>(&request)) {
    wire::AnyReply reply = create(*made, std::move(descriptor_messages_[number]));
    for (const Descriptor& fd : jobs_.rbegin()->second.link) {
      fds->push_back(fd.duplicate().value());
    }
    return reply;
  }
  if (const auto* segment = std::get_if<wire::AddSegment>(&request)) {
    if (refuses_segments_) return wire::Failure{ErrorCode::refused, "no segment more"};
    jobs_.at(segment->job)
        .segments.emplace(segment->segment,
                          attach(descriptor_messages_[number].at(0), segment->bytes));
    return wire::Done{};
  }
  if (const auto* dropped = std::get_if<wire::DropSegment>(&request)) {
    LW_CHECK(jobs_.at(dropped->job).segments.erase(dropped->segment) == 1, "dropped once");
    return wire::Done{};
  }
  if (const auto* closed = std::get_if<wire::CloseJob>(&request)) {
    jobs_.at(closed->job).ring->close(Error{ErrorCode::cancelled, "the job was closed"});
    return wire::Done{};
  }
  if (std::holds_alternative<wire::WaitJob>(request)) {
    if (!held_) return wire::JobPlaced{};
    return wire::JobWaits{.position = 2, .code = "x", .text = "it is second", .estimate_s = 12.4};
  }
  if (const auto* killed = std::get_if<wire::KillJob>(&request)) {
    return wire::Failure{ErrorCode::refused, "not " + killed->job};
  }
  if (std::holds_alternative<wire::ServiceStatus>(request)) return wire::StatusReply{};
  said_bye = said_bye || std::holds_alternative<wire::Bye>(request);
  return wire::Done{};
}

wire::AnyReply FakeService::create(const wire::CreateJob& create, std::vector<Descriptor> message) {
  const uint64_t number = static_cast<uint64_t>(++jobs_made);
  {
    const MutexLock lock(torch_mutex_);
    torch_version_ = create.torch_version;
  }
  Job& job = jobs_[number];
  job.name = create.spec.options.name.empty() ? "job-1" : create.spec.options.name;
  job.slots = create.spec.slots;
  LW_CHECK(message.size() == (create.spec.has_initial ? 2u : 1u), "graph and initial bytes");
  if (create.spec.has_initial) {
    const uint64_t bytes = slot_offsets(create.spec.slots).total;
    std::memcpy(job.slot.data(), attach(message[1], bytes).data(), kBytes);
  }
  auto ring = memory::SharedMemory::create("fake-ring", Bytes(service::kRingBytes)).value();
  service::format_ring(*reinterpret_cast<service::RingMemory*>(ring.data()));
  int ends[2] = {-1, -1};
  LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
  job.link = {Descriptor(::dup(ring.descriptor())),
              Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), Descriptor(ends[0])};
  job.ring = service::RingServer::attach(job.link[0].duplicate().value(),
                                         job.link[1].duplicate().value(), Descriptor(ends[1]))
                 .value();
  return wire::JobCreated{.job = number, .name = job.name, .graph = sum_graph(), .link = 1};
}

void FakeService::run_ring(Job& job) {
  while (!held_ && !job.ring->closed()) {
    const auto request = job.ring->take();
    if (!request) return;
    const Status cancelled = Error{ErrorCode::cancelled, "cancelled"};
    job.ring->answer(request->sequence, request->cancelled ? cancelled : run_request(job, *request),
                     Duration(1));
    job.ring->publish(request->sequence);
  }
}

Status FakeService::run_request(Job& job, const service::RingRequest& request) {
  const auto segment = job.segments.find(request.segment);
  if (segment == job.segments.end()) return Error{ErrorCode::invalid_argument, "no such segment"};
  std::byte* block = segment->second.data() + request.offset;
  if (request.kind == service::RingKind::iteration) {
    const service::BlockLayout layout = wire::block_layout(sum_graph());
    std::array<float, 4> input{};
    std::memcpy(input.data(), block + layout.inputs[0], kBytes);
    for (size_t i = 0; i < input.size(); ++i) job.slot[i] += input[i];
    std::memcpy(block + layout.outputs[0], job.slot.data(), kBytes);
    return {};
  }
  service::StateHeader header{};
  std::memcpy(&header, block, sizeof header);
  if (header.count != 1) return Error{ErrorCode::invalid_argument, "one slot"};
  service::StateEntry entry{};
  std::memcpy(&entry, block + sizeof header, sizeof entry);
  if (entry.slot != 0 || entry.bytes != kBytes) {
    return Error{ErrorCode::invalid_argument, "the slot"};
  }
  std::byte* bytes = block + entry.offset;
  if (request.kind == service::RingKind::read_state) {
    std::memcpy(bytes, job.slot.data(), kBytes);
    if (header.has_random != 0) {
      std::memset(block + header.random_offset, 7, limits::kRandomStateBytes);
    }
  } else {
    std::memcpy(job.slot.data(), bytes, kBytes);
  }
  return {};
}

}  // namespace laneway::testing

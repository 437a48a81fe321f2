#include "tests/service/broker/registry_rig.h"

#include <algorithm>
#include <utility>

#include "memory/os/shared_memory.h"

namespace laneway::service {

std::list<HeldThings::Entry>::iterator HeldThings::find(const std::string& key) {
  return std::find_if(entries.begin(), entries.end(),
                      [&key](const Entry& entry) { return entry.key == key; });
}

uint64_t HeldThings::hold(std::string key, std::vector<std::byte> note,
                          std::vector<Descriptor> fds) {
  death_.pass();
  ++last_;
  const auto found = find(key);
  if (no_room.contains(key)) {
    refused_[last_] = key;
  } else if (found != entries.end()) {
    found->note = std::move(note);
    found->fds = std::move(fds);
  } else {
    entries.push_back({std::move(key), std::move(note), std::move(fds)});
  }
  death_.pass();
  return last_;
}

uint64_t HeldThings::renote(std::string key, std::vector<std::byte> note, size_t descriptors) {
  death_.pass();
  if (const auto found = find(key); found != entries.end()) {
    found->note = std::move(note);
    if (descriptors < found->fds.size()) found->fds.resize(descriptors);
  }
  death_.pass();
  return ++last_;
}

bool HeldThings::answer(JobRegistry& registry) {
  if (!answers || told_ == last_) return false;
  for (const auto& [number, key] : std::exchange(refused_, {})) {
    registry.hold_refused(number, {ErrorCode::refused, "'" + key + "' cannot be held"});
  }
  told_ = last_;
  registry.parts().holds_done(last_);
  return true;
}

void HeldThings::release(const std::string& key) {
  death_.pass();
  std::erase_if(entries, [&key](const Entry& entry) { return entry.key == key; });
  death_.pass();
}

std::set<std::string> HeldThings::keys() const {
  std::set<std::string> keys;
  for (const Entry& entry : entries) keys.insert(entry.key);
  return keys;
}

void RegistryRig::start() {
  core_.reset();
  registry_.reset();
  held.begin_anew();
  quotas_ = std::make_unique<Quotas>(limits);
  replies_ = std::make_unique<Replies>();
  replies_->set_way(
      [this](const ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> fds) {
        death.pass();
        answers[{to.session.value(), to.number}] = {reply, fds.size()};
        death.pass();
      });
  link_ = std::make_unique<WorkerLink>();
  registry_ = std::make_unique<JobRegistry>(held, *link_, *replies_, *quotas_, clock);
  lanes::SchedulerConfig config;
  config.capacity = Bytes(pool_bytes_);
  config.max_lanes = 2;
  core_ = std::move(BrokerCore::make(config, "fifo", clock, *registry_).value());
  registry_->set_core(*core_);
  // All of it first: a supervisor does not listen while it tells.
  std::list<HeldThings::Entry> told;
  for (const HeldThings::Entry& entry : held.entries) {
    std::vector<const Descriptor*> originals;
    for (const Descriptor& fd : entry.fds) originals.push_back(&fd);
    told.push_back({entry.key, entry.note, copies(originals).value()});
  }
  for (HeldThings::Entry& entry : told) {
    std::vector<uint8_t> note;
    for (const std::byte byte : entry.note) note.push_back(static_cast<uint8_t>(byte));
    const Status restored = registry_->restore(entry.key, note, std::move(entry.fds));
    EXPECT_TRUE(restored.ok()) << restored.error().message;
  }
  registry_->restored(sessions);
  auto ends = Channel::pair();
  worker.connect(std::move(ends.value().second));
  registry_->worker_connected(std::move(ends.value().first), torch);
}

void RegistryRig::settle() {
  bool moved = true;
  while (moved) {
    const uint64_t before = death.passed() + worker.reports;
    link_->flush();
    registry_->read_worker();
    core_->fire_due();
    const bool answered = held.answer(*registry_);
    registry_->answer_waiters();
    moved = answered || worker.pump() || death.passed() + worker.reports != before;
  }
  registry_->read_worker();
}

void RegistryRig::restart_worker() {
  worker.restart();
  registry_->read_worker();
  registry_->worker_gone();
  auto ends = Channel::pair();
  worker.connect(std::move(ends.value().second));
  registry_->worker_connected(std::move(ends.value().first), torch);
}

wire::CreateJob RegistryRig::job(const std::string& name, uint64_t bytes, bool has_initial) {
  wire::CreateJob request;
  request.spec.options.name = name;
  request.spec.slots = {{"weight", SlotKind::parameter, bytes}};
  request.spec.has_initial = has_initial;
  return request;
}

std::vector<Descriptor> RegistryRig::files(size_t count) {
  std::vector<Descriptor> fds;
  const auto memory = memory::SharedMemory::create("test", Bytes(4096));
  for (size_t i = 0; i < count; ++i) {
    Descriptor borrowed(memory.value().descriptor());
    fds.push_back(std::move(borrowed.duplicate()).value());
    borrowed.release();
  }
  return fds;
}

uint64_t RegistryRig::create(uint64_t session, uint64_t number, const std::string& name,
                             uint64_t bytes, bool shared) {
  wire::CreateJob request = job(name, bytes);
  request.spec.options.shared = shared;
  registry_->create(from(session, number), request, files(1));
  return get<wire::JobCreated>(session, number).job;
}

}  // namespace laneway::service

// A worker that does what a test says (puppet.h).
#include <fcntl.h>

#include <optional>

#include "memory/os/shared_memory.h"
#include "service/journal/journal_layout.h"
#include "service/wire/codec.h"
#include "service/wire/supervisor_messages.h"
#include "tests/service/supervisor/puppet.h"

namespace laneway::testing {
namespace {

namespace in = wire::supervisor_to_worker;
namespace out = wire::worker_to_supervisor;

class PuppetWorker final : public Puppet {
 public:
  PuppetWorker() : Puppet("worker") {}

 private:
  void on_frame(service::Frame frame) override {
    fds_ = std::move(frame.fds);
    auto message = wire::decode<in::Any>(frame.bytes);
    if (!message) return report("bad message: " + message.error().message);
    std::visit([this](const auto& one) { on(one); }, message.value());
  }
  void on(const in::Start& start) {
    const bool shared = start.config.pool_is_shared;
    if (shared) pool_ = map(fds_.at(0), start.config.pool_bytes);
    journal_ = map(fds_.at(shared ? 1 : 0), start.journal_bytes);
    const std::string told = start.config.device + " " + start.config.kernels + " " +
                             std::to_string(start.config.pool_bytes) + " " +
                             std::to_string(start.config.alignment) + " " +
                             std::to_string(start.config.lane_sms);
    const size_t wanted = (shared ? 2U : 1U) + (start.config.recovery_bytes > 0 ? 1U : 0U) +
                          (start.config.store_bytes > 0 ? 1U : 0U);
    const bool mapped = journal_ && (pool_ || !shared) && fds_.size() == wanted;
    report(mapped ? "start " + told : "cannot map");
  }
  void on(const in::MakePool& make) {
    report("make pool " + make.config.device + " " + std::to_string(make.config.pool_bytes) + " " +
           std::to_string(make.config.lane_sms));
  }
  void on(const in::Activate& activate) {
    if (!hangs_) (void)supervisor().send(wire::encode(out::Activated{}));
    report("activate " + std::to_string(activate.epoch));
  }
  void on(const in::BrokerChannel& channel) {
    set_peer(std::move(fds_.at(0)));
    report("broker channel " + std::to_string(channel.epoch));
  }
  void on(const in::Stop&) { report("stop"); }
  void on(const in::Ping&) {
    if (!mute_) (void)supervisor().send(wire::encode(out::Pong{}));
  }

  void on_line(const std::vector<std::string>& words) override {
    if (words[0] == "hangs") {  // does not answer its activation
      hangs_ = true;
    } else if (words[0] == "mute") {  // answers no ping
      mute_ = true;
    } else if (words[0] == "note") {  // LANE DOING STEPS BOUND_MS, as a lane of its does
      service::LaneNotes& notes = journal().lanes.at(std::stoul(words[1]) - 1).notes;
      notes.job.store(12);
      notes.doing.store(static_cast<uint32_t>(std::stoul(words[2])));
      notes.steps.store(std::stoull(words[3]));
      notes.bound_ms.store(static_cast<uint32_t>(std::stoul(words[4])));
    } else if (words[0] == "ended") {  // so many requests
      journal().header.ended.fetch_add(std::stoull(words[1]));
    } else if (words[0] == "ready") {  // nothing, or BUILT RUNNING, versions of torch
      out::Ready ready;
      if (words.size() == 3) ready.torch = {.built = words[1], .running = words[2]};
      (void)supervisor().send(wire::encode(ready));
    } else if (words[0] == "unfit") {  // WHY
      (void)supervisor().send(wire::encode(out::Unfit{.why = words[1]}));
    } else if (words[0] == "pool") {  // SIZE, then "shared" or "own"
      made(std::stoull(words[1]), words[2] == "shared");
    } else if (words[0] == "refuse") {
      (void)supervisor().send(wire::encode(out::PoolRefused{
          .code = static_cast<ErrorCode>(std::stoi(words[1])), .message = words[2]}));
    } else if (words[0] == "write") {  // a letter into the pool, another into the journal
      pool_->data()[7] = static_cast<std::byte>(words[1][0]);
      journal_->data()[7] = static_cast<std::byte>(words[1][1]);
    } else if (words[0] == "read") {
      report(std::string("memory ") + static_cast<char>(pool_->data()[7]) +
             static_cast<char>(journal_->data()[7]));
    } else {
      report("unknown line: " + words[0]);
    }
  }
  void made(uint64_t bytes, bool shared) {
    std::vector<service::Descriptor> fds;
    if (shared) {
      pool_ = memory::SharedMemory::create("pool", Bytes(static_cast<int64_t>(bytes))).value();
      pool_->data()[7] = std::byte{'p'};
      fds.emplace_back(::fcntl(pool_->descriptor(), F_DUPFD_CLOEXEC, 0));
    }
    (void)supervisor().send(
        wire::encode(out::PoolMade{
            .pool_bytes = bytes, .alignment = 512, .is_shared = shared, .kernels = "cuda"}),
        std::move(fds));
  }
  service::JournalMemory& journal() const {
    return *reinterpret_cast<service::JournalMemory*>(journal_->data());
  }
  static std::optional<memory::SharedMemory> map(service::Descriptor& fd, uint64_t size) {
    auto memory = memory::SharedMemory::attach(fd.release(), Bytes(static_cast<int64_t>(size)));
    if (!memory) return std::nullopt;
    return std::move(memory).value();
  }

  bool hangs_ = false;
  bool mute_ = false;
  std::vector<service::Descriptor> fds_;  // of the frame that is being looked at
  std::optional<memory::SharedMemory> pool_;
  std::optional<memory::SharedMemory> journal_;
};

}  // namespace
}  // namespace laneway::testing

int main() { return laneway::testing::PuppetWorker().run(); }

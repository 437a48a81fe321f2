// A broker that does what a test says (puppet.h).
#include <unistd.h>

#include "service/wire/codec.h"
#include "service/wire/supervisor_messages.h"
#include "tests/service/supervisor/puppet.h"

namespace laneway::testing {
namespace {

namespace in = wire::supervisor_to_broker;
namespace out = wire::broker_to_supervisor;

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

class PuppetBroker final : public Puppet {
 public:
  PuppetBroker() : Puppet("broker") {}

 private:
  void on_frame(service::Frame frame) override {
    fds_ = std::move(frame.fds);
    auto message = wire::decode<in::Any>(frame.bytes);
    if (!message) return report("bad message: " + message.error().message);
    std::visit([this](const auto& one) { on(one); }, message.value());
  }
  void on(const in::Start& start) {
    report("start epoch " + std::to_string(start.epoch) + " policy " + start.config.policy +
           (start.wanted_pool_bytes > 0 ? " pool " + std::to_string(start.wanted_pool_bytes) : "") +
           " fds " + std::to_string(fds_.size()));
  }
  void on(const in::Held& held) {
    const bool is_short = held.note.size() < 100;
    std::string line = "held " + held.key + " " +
                       (is_short ? text_of(held.note) : std::to_string(held.note.size()));
    for (const auto& fd : fds_) line += " [" + text_of_memory(fd) + "]";
    report(line);
  }
  void on(const in::HeldEnd&) { report("held end"); }
  void on(const in::WorkerUp& up) {
    const char* const states[] = {"starting", "ready", "lost"};
    report("worker up " + std::to_string(up.pid) +
           (up.role == wire::WorkerRole::active ? " active " : " standby ") +
           states[static_cast<int>(up.state)] + " epoch " + std::to_string(up.epoch) +
           (fds_.empty() ? "" : " connected") +
           (up.torch == TorchVersions()
                ? ""
                : " torch " + up.torch.built + " runs " + up.torch.running));
    // That of a standby is for jobs to be prepared.
    const bool active = up.role == wire::WorkerRole::active;
    if (!fds_.empty() && active) set_peer(std::move(fds_[0]));
  }
  void on(const in::WorkerDown& down) { report("worker down " + std::to_string(down.pid)); }
  void on(const in::PolicyNews& news) {
    std::string line = "policy " + std::to_string(news.pid);
    if (!fds_.empty()) {
      policy_ = std::move(fds_[0]);
      line += " says " + line_of(policy_);
    }
    report(line + (news.reason.empty() ? "" : " after: " + news.reason));
  }
  void on(const in::HoldsDone& done) {
    if (says_holds_) report("held up to " + std::to_string(done.number));
  }
  void on(const in::HoldRefused& refused) {
    report("refused " + std::to_string(refused.number) + " " + refused.key + ": " + refused.why);
  }
  void on(const in::ReopenLog& /*again*/) { report("reopen log"); }
  // What is said up to the end of a line; waits for it.
  static std::string line_of(const service::Descriptor& socket) {
    std::string line;
    for (char one = 0; ::read(socket.get(), &one, 1) == 1 && one != '\n';) line += one;
    return line;
  }
  void on(const in::Stop& stop) { report("stop " + stop.failure); }

  void on_line(const std::vector<std::string>& words) override {
    if (words[0] == "say-holds") {
      says_holds_ = true;
    } else if (words[0] == "hold") {  // KEY NOTE TEXT…: a descriptor a text
      out::Hold hold{.key = words[1], .note = bytes_of(words[2]), .number = ++holds_};
      std::vector<service::Descriptor> fds;
      for (size_t i = 3; i < words.size(); ++i) fds.push_back(text_in_memory(words[i]));
      say(hold, std::move(fds));
    } else if (words[0] == "hold-many") {  // COUNT BYTES: "many/1", … each with a descriptor
      for (int i = 1; i <= std::stoi(words[1]); ++i) {
        const std::string key = "many/" + std::to_string(i);
        std::vector<service::Descriptor> fds;
        fds.push_back(text_in_memory(key));
        say(out::Hold{.key = key,
                      .note = std::vector<uint8_t>(std::stoul(words[2]), 'n'),
                      .number = ++holds_},
            std::move(fds));
      }
    } else if (words[0] == "renote") {  // KEY NOTE DESCRIPTORS
      say(out::Renote{.key = words[1],
                      .note = bytes_of(words[2]),
                      .descriptors = static_cast<uint32_t>(std::stoul(words[3])),
                      .number = ++holds_});
    } else if (words[0] == "release") {
      say(out::Release{.key = words[1]});
    } else if (words[0] == "heartbeat") {
      say(out::Heartbeat{});
    } else if (words[0] == "shutdown") {
      say(out::ShutdownRequested{});
    } else if (words[0] == "stopped") {
      say(out::Stopped{});
    } else if (words[0] == "policy") {
      say(out::PolicyChanged{.policy = words[1]});
    } else if (words[0] == "policy-failed") {  // PID WHY
      say(out::PolicyFailed{.pid = std::stoi(words[1]), .why = words[2], .hung_up = false});
    } else if (words[0] == "pool") {
      say(out::PoolChanged{.wanted_bytes = std::stoull(words[1])});
    } else {
      report("unknown line: " + words[0]);
    }
  }
  template <class M>
  void say(const M& message, std::vector<service::Descriptor> fds = {}) {
    const Status status = supervisor().send(wire::encode(message), std::move(fds));
    if (!status) report("cannot send: " + status.error().message);
  }

  uint64_t holds_ = 0;
  bool says_holds_ = false;
  service::Descriptor policy_;            // the socket to the policy's process
  std::vector<service::Descriptor> fds_;  // of the frame that is being looked at
};

}  // namespace
}  // namespace laneway::testing

int main() { return laneway::testing::PuppetBroker().run(); }

// FakeService: what a client sees of a service, played by one thread: sessions, descriptor
// messages, and jobs of one slot whose every iteration adds its input to the slot and gives the sum
// back. Answers can be lost on purpose, and it can vanish.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "service/transport/channel.h"
#include "service/transport/ring_server.h"
#include "service/transport/zmq_server.h"
#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"
#include "tests/service/transport/temporary_address.h"

namespace laneway::testing {

class FakeService {
 public:
  static constexpr uint64_t kBytes = 16;  // of the slot, the input and the output: four floats

  FakeService();
  ~FakeService() { vanish(); }

  const service::Address& address() const { return *address_; }
  // So many replies are lost from now on.
  void lose_replies(int count) { to_lose_ = count; }
  // What the last job's client said of its torch.
  std::string torch_version() {
    const MutexLock lock(torch_mutex_);
    return torch_version_;
  }
  // As if every process of it had been killed.
  void vanish();
  // No iteration is begun while it is held back.
  void hold_back(bool held) { held_ = held; }

  // Another release of the service: the headers of its answers have this protocol, and a Hello of
  // this version alone is taken.
  void be_another_release(uint8_t protocol, uint8_t hello) {
    protocol_ = protocol;
    hello_version_ = hello;
  }

  // No further segment is taken, for good.
  void refuse_segments() { refuses_segments_ = true; }

  std::atomic<int> requests{0};   // came, repeated ones too
  std::atomic<int> jobs_made{0};  // by requests of different numbers
  std::atomic<bool> said_bye{false};

 private:
  struct Job {
    std::unique_ptr<service::RingServer> ring;
    std::array<service::Descriptor, 3> link;  // ring, wake, doorbell's read end
    std::map<uint32_t, memory::SharedMemory> segments;
    std::array<float, 4> slot{};
    bool shared = false;
    std::string name;
    std::vector<ImageSlot> slots;
  };

  void run(const std::stop_token& stop);
  void wait();
  void handle_message(const service::ZmqServer::Message& message);
  void handle_lifeline();
  wire::AnyReply answer(const wire::AnyRequest& request, uint64_t number,
                        std::vector<service::Descriptor>* fds);
  wire::AnyReply create(const wire::CreateJob& create, std::vector<service::Descriptor> message);
  void run_ring(Job& job);
  Status run_request(Job& job, const service::RingRequest& request);

  TemporaryAddress address_;
  std::optional<service::ZmqServer> zmq_;
  service::Descriptor lifelines_;
  std::optional<service::Channel> lifeline_;
  std::map<uint64_t, std::vector<service::Descriptor>> descriptor_messages_;
  std::map<uint64_t, wire::AnyReply> replies_;  // by request: nothing is done twice
  std::map<uint64_t, Job> jobs_;
  Mutex torch_mutex_;
  std::string torch_version_ LW_GUARDED_BY(torch_mutex_);
  std::atomic<int> to_lose_{0};
  std::atomic<bool> held_{false};
  std::atomic<bool> refuses_segments_{false};
  std::atomic<uint8_t> protocol_{1};
  std::atomic<uint8_t> hello_version_{1};
  std::jthread thread_;
};

}  // namespace laneway::testing

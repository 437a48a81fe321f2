// A Gateway over real sockets, with a table beside it that holds what it wants held, a sink that
// writes down what it is told, and a clock that is moved by hand; and a client that says exactly
// what a test wants, whether it makes sense or not. One thread: whoever waits here cranks the
// gateway.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "service/broker/gateway.h"
#include "service/transport/channel.h"
#include "service/transport/zmq_client.h"
#include "service/wire/codec.h"
#include "tests/service/transport/temporary_address.h"

namespace laneway::testing {

class FakeStore final : public service::DescriptorStore {
 public:
  struct Entry {
    std::vector<std::byte> note;
    std::vector<service::Descriptor> fds;
  };
  uint64_t hold(std::string key, std::vector<std::byte> note,
                std::vector<service::Descriptor> fds) override {
    if (!entries.contains(key)) order.push_back(key);
    entries[key] = {std::move(note), std::move(fds)};
    return ++holds;
  }
  uint64_t renote(std::string key, std::vector<std::byte> note, size_t descriptors) override {
    const auto found = entries.find(key);
    if (found != entries.end()) {
      found->second.note = std::move(note);
      if (descriptors < found->second.fds.size()) found->second.fds.resize(descriptors);
    }
    return ++holds;
  }
  void release(const std::string& key) override {
    entries.erase(key);
    std::erase(order, key);
  }

  std::map<std::string, Entry> entries;
  std::vector<std::string> order;
  uint64_t holds = 0;
};

class FakeSink final : public service::RequestSink {
 public:
  void on_session(const service::Session& session) override { opened.push_back(session); }
  void on_session_end(SessionId session, bool died) override { ended.emplace_back(session, died); }
  void on_request(service::Request request) override { requests.push_back(std::move(request)); }

  std::vector<service::Session> opened;
  std::vector<std::pair<SessionId, bool>> ended;  // with `died`
  std::vector<service::Request> requests;
};

// Whatever limit of open files the test runs under.
inline constexpr uint64_t kManyFiles = 1u << 20;
inline service::Quotas::Limits plenty_of_files() {
  service::Quotas::Limits limits = service::Quotas::defaults();
  limits[static_cast<size_t>(service::Resource::descriptors)] = {kManyFiles, kManyFiles, 0};
  return limits;
}

class GatewayRig {
 public:
  GatewayRig();
  // The broker dies, and another one begins over the same listeners with what was held.
  void restart();
  // Lets the gateway do what is there to be done until `condition` holds; stops the test's process
  // when nothing happens for a minute.
  template <class Condition>
  void crank_until(const Condition& condition) {
    while (!condition()) step();
  }

  TemporaryAddress address;
  ManualClock clock;
  FakeStore holder;
  service::Quotas quotas{plenty_of_files()};
  FakeSink sink;
  std::unique_ptr<service::Gateway> gateway;

 private:
  friend class RawClient;
  void open_gateway();
  // Waits until something is there for the gateway, at most a moment, and has it handled.
  void step();

  service::Descriptor zmq_listener_, lifeline_listener_;
  int idle_steps_ = 0;
};

class RawClient {
 public:
  explicit RawClient(GatewayRig& rig);

  // Hello, Welcome, lifeline, LifelineReady.
  void join();
  wire::Welcome hello(uint64_t number = 1);
  void open_lifeline();
  // Says LifelineHello and gives the answer: LifelineReady, Failure, or nothing after a hang-up.
  std::optional<wire::AnyLifeline> say_lifeline_hello(const wire::LifelineHello& hello);
  std::optional<service::Frame> next_frame();

  void send(const wire::AnyRequest& message, uint64_t number);
  void send_bytes(const std::vector<std::byte>& bytes);
  void send_descriptor_message(uint64_t number, size_t count);
  wire::AnyReply next_reply(uint64_t* number = nullptr);
  wire::AnyReply ask(const wire::AnyRequest& message, uint64_t number);

  wire::Envelope envelope(uint64_t number) const { return {number, welcome.token}; }

  GatewayRig& rig;
  service::ZmqClient socket;
  service::Channel lifeline;
  wire::Welcome welcome;
};

// Descriptors of nothing in particular.
std::vector<service::Descriptor> some_descriptors(size_t count);

}  // namespace laneway::testing

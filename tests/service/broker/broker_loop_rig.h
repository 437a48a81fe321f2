// BrokerLoop: the whole broker over real sockets: a supervisor that only holds things, a worker
// that keeps to its side of the messages, and a client that speaks ZeroMQ and has a lifeline. One
// thread cranks them all.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "memory/os/shared_memory.h"
#include "service/broker/broker.h"
#include "service/journal/journal.h"
#include "service/status/status.h"
#include "service/transport/unix_socket.h"
#include "service/transport/zmq_client.h"
#include "tests/service/broker/fake_worker.h"
#include "tests/service/broker/policy_peer.h"
#include "tests/service/transport/temporary_address.h"

namespace laneway::service {

class BrokerLoop : public ::testing::Test {
 protected:
  BrokerLoop() : zmq_(address_.listen()), lifelines_(address_.listen_lifeline()) {
    std::signal(SIGPIPE, SIG_IGN);
    start();
  }

  // A broker begins, and is told all that was held.
  void start() {
    if (broker_ != nullptr) read_broker();
    broker_.reset();
    auto ends = Channel::pair();
    channel_ = std::move(ends.value().first);
    broker_ = std::make_unique<Broker>(std::move(ends.value().second), clock_);
    wire::supervisor_to_broker::Start start;
    start.config.address = address_->text();
    start.config.device = "host";
    start.config.kernels = "cpu";
    start.config.policy = policy_;
    start.config.pool_bytes = 64'000;
    start.wanted_pool_bytes = wanted_pool_bytes_;
    start.epoch = ++epoch_;
    tell(start, copies({&zmq_, &lifelines_, &journal_}).value());
    for (const Entry& entry : held_) {
      wire::supervisor_to_broker::Held held;
      held.key = entry.key;
      held.note = entry.note;
      std::vector<const Descriptor*> originals;
      for (const Descriptor& fd : entry.fds) originals.push_back(&fd);
      tell(held, copies(originals).value());
    }
    tell(wire::supervisor_to_broker::HeldEnd{}, {});
    connect_worker();
  }
  void connect_worker() {
    auto ends = Channel::pair();
    worker_.connect(std::move(ends.value().second));
    wire::supervisor_to_broker::WorkerUp up;
    up.pid = 77;
    up.state = wire::WorkerState::ready;
    std::vector<Descriptor> fds;
    fds.push_back(std::move(ends.value().first).release());
    tell(up, std::move(fds));
  }
  template <class M>
  void tell(const M& message, std::vector<Descriptor> fds) {
    LW_CHECK(channel_.send(wire::encode(message), std::move(fds)).ok());
  }

  void read_broker() {
    uint64_t last_hold = 0;
    read_frames(last_hold);
    if (last_hold > 0) {
      (void)channel_.send(wire::encode(wire::supervisor_to_broker::HoldsDone{.number = last_hold}),
                          {});
    }
  }
  void hold_entry(wire::broker_to_supervisor::Hold& hold, std::vector<Descriptor> fds) {
    if (no_room_.contains(hold.key)) {
      return tell(
          wire::supervisor_to_broker::HoldRefused{
              .number = hold.number, .key = hold.key, .why = "no room for " + hold.key},
          {});
    }
    auto found = std::find_if(held_.begin(), held_.end(),
                              [&](const Entry& entry) { return entry.key == hold.key; });
    if (found == held_.end()) found = held_.insert(held_.end(), Entry{});
    *found = Entry{hold.key, hold.note, std::move(fds)};
  }
  void read_frames(uint64_t& last_hold) {
    while (true) {
      auto frame = channel_.receive();
      if (!frame || !frame.value()) return;
      auto message = wire::decode<wire::broker_to_supervisor::Any>(frame.value()->bytes).value();
      if (auto* hold = std::get_if<wire::broker_to_supervisor::Hold>(&message)) {
        hold_entry(*hold, std::move(frame.value()->fds));
        last_hold = hold->number;
      } else if (auto* renote = std::get_if<wire::broker_to_supervisor::Renote>(&message)) {
        for (Entry& entry : held_) {
          if (entry.key != renote->key) continue;
          entry.note = renote->note;
          if (renote->descriptors < entry.fds.size()) entry.fds.resize(renote->descriptors);
        }
        last_hold = renote->number;
      } else if (auto* release = std::get_if<wire::broker_to_supervisor::Release>(&message)) {
        std::erase_if(held_, [&](const Entry& entry) { return entry.key == release->key; });
      } else if (auto* changed = std::get_if<wire::broker_to_supervisor::PolicyChanged>(&message)) {
        policy_ = changed->policy;
      } else if (auto* pool = std::get_if<wire::broker_to_supervisor::PoolChanged>(&message)) {
        wanted_pool_bytes_ = pool->wanted_bytes;
      } else if (auto* failed = std::get_if<wire::broker_to_supervisor::PolicyFailed>(&message)) {
        policy_failed_ = failed->why;
      } else if (std::holds_alternative<wire::broker_to_supervisor::ShutdownRequested>(message)) {
        shutdown_requested_ = true;
      } else if (std::holds_alternative<wire::broker_to_supervisor::Stopped>(message)) {
        stopped_ = true;
      }
    }
  }
  template <class Condition>
  void crank_until(const Condition& condition) {
    for (int steps = 0; !condition(); ++steps) {
      LW_CHECK(steps < 60'000, "nothing happens any more");
      broker_->step(milliseconds(1));
      worker_.pump();
      if (policy_peer_ != nullptr) policy_peer_->answer();
      read_broker();
    }
  }

  // The client.
  void join() {
    client_.emplace(std::move(ZmqClient::open(*address_)).value());
    wire::Hello hello;
    hello.client_version = "0.test";
    hello.program = "test";
    const auto welcome = std::get<wire::Welcome>(ask(hello, 1));
    token_ = welcome.token;
    lifeline_ = Channel(std::move(connect_unix(address_->descriptor_path())).value());
    LW_CHECK(
        lifeline_.send(wire::encode(wire::LifelineHello{welcome.session, welcome.token})).ok());
    take_frame();
  }
  Frame take_frame() {
    std::optional<Frame> frame;
    crank_until([&] {
      frame = lifeline_.receive().value();
      return frame.has_value();
    });
    return std::move(*frame);
  }
  void send(const wire::AnyRequest& message, uint64_t number) {
    crank_until([&] { return client_->send(wire::encode(message, {number, token_})).ok(); });
  }
  // The document that a client makes of what it is told.
  std::string status(uint64_t number) {
    const auto reply = std::get<wire::StatusReply>(ask(wire::ServiceStatus{}, number));
    return status_json(reply.service, reply.core);
  }
  wire::AnyReply ask(const wire::AnyRequest& message, uint64_t number) {
    send(message, number);
    return answer(message, number);
  }
  // Repeats the request as a client does, while a broker may have died.
  wire::AnyReply answer(const wire::AnyRequest& message, uint64_t number) {
    std::vector<std::byte> bytes;
    int rounds = 0;
    crank_until([&] {
      auto received = client_->receive(Duration());
      if (received) bytes = std::move(received).value();
      if (!received && ++rounds % 500 == 0) {
        (void)client_->send(wire::encode(message, {number, token_})).ok();
      }
      return received.ok() && wire::decode_header(bytes).value().envelope.request == number;
    });
    return wire::decode<wire::AnyReply>(bytes).value();
  }
  void send_descriptor_message(uint64_t number) {
    wire::DescriptorMessage message;
    message.request = number;
    const auto memory = memory::SharedMemory::create("test", Bytes(4096));
    Descriptor borrowed(memory.value().descriptor());
    std::vector<Descriptor> fds;
    fds.push_back(std::move(borrowed.duplicate()).value());
    borrowed.release();
    LW_CHECK(lifeline_.send(wire::encode(message), std::move(fds)).ok());
  }
  static wire::CreateJob job(const std::string& name) {
    wire::CreateJob request;
    request.spec.options.name = name;
    request.spec.slots = {{"weight", SlotKind::parameter, 640}};
    return request;
  }

  static Descriptor empty_journal() {
    const auto memory =
        memory::SharedMemory::create("journal", Bytes(static_cast<int64_t>(kJournalBytes)));
    Descriptor borrowed(memory.value().descriptor());
    Descriptor own = std::move(borrowed.duplicate()).value();
    borrowed.release();
    return own;
  }

  struct Entry {
    std::string key;
    std::vector<uint8_t> note;
    std::vector<Descriptor> fds;
  };
  testing::TemporaryAddress address_;
  Descriptor zmq_, lifelines_;
  Descriptor journal_ = empty_journal();
  SteadyClock clock_;
  std::list<Entry> held_;
  std::set<std::string> no_room_;  // keys that the supervisor does not take
  std::string policy_ = "fifo";
  uint64_t wanted_pool_bytes_ = 0;
  uint64_t epoch_ = 0;
  testing::PolicyPeer* policy_peer_ = nullptr;  // answers at once, whatever it is asked
  std::string policy_failed_;
  bool shutdown_requested_ = false;
  bool stopped_ = false;
  Channel channel_;
  std::unique_ptr<Broker> broker_;
  FakeWorker worker_;
  std::optional<ZmqClient> client_;
  wire::Token token_{};
  Channel lifeline_;
};

}  // namespace laneway::service

// The whole broker over real sockets: a supervisor that only holds things, a worker that keeps to
// its side of the messages, and a client that speaks ZeroMQ and has a lifeline. One thread cranks
// them all. The broker dies between requests, and again before their answers came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "memory/os/shared_memory.h"
#include "service/broker/broker.h"
#include "service/journal/journal.h"
#include "service/trace/trace_reader.h"
#include "service/trace/trace_text.h"
#include "service/transport/unix_socket.h"
#include "service/transport/zmq_client.h"
#include "tests/service/broker/fake_worker.h"
#include "tests/service/broker/policy_peer.h"
#include "tests/service/transport/temporary_address.h"
#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

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
    while (true) {
      auto frame = channel_.receive();
      if (!frame || !frame.value()) return;
      auto message = wire::decode<wire::broker_to_supervisor::Any>(frame.value()->bytes).value();
      if (auto* hold = std::get_if<wire::broker_to_supervisor::Hold>(&message)) {
        auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const Entry& entry) { return entry.key == hold->key; });
        if (found == held_.end()) found = held_.insert(held_.end(), Entry{});
        *found = Entry{hold->key, hold->note, std::move(frame.value()->fds)};
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

TEST_F(BrokerLoop, AClientsJobLivesThroughBrokersThatDieAndEndsWithItsClient) {
  join();
  send_descriptor_message(2);
  const auto created = std::get<wire::JobCreated>(ask(job("digits"), 2));
  EXPECT_EQ(created.job, 1u);
  EXPECT_EQ(take_frame().fds.size(), 3u) << "ring, eventfd, pipe";
  start();
  wire::WaitJob wait;
  wait.job = 1;
  wait.timeout_ms = 1000;
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 3)));
  send_descriptor_message(4);
  wire::AddGraph graph;
  graph.job = 1;
  send(graph, 4);
  crank_until([&] { return worker_.jobs.at(JobId(1)).graphs.size() == 2; });
  start();
  EXPECT_EQ(std::get<wire::GraphAdded>(answer(graph, 4)).graph.number, 1u);
  lifeline_ = Channel();
  crank_until([&] { return worker_.jobs.empty(); });
  crank_until([&] {
    return std::none_of(held_.begin(), held_.end(),
                        [](const Entry& entry) { return entry.key == "j/1"; });
  });
}

TEST_F(BrokerLoop, TellsItsStateTakesAPolicyAndIsShutDown) {
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  const auto journal = Journal::map(journal_.get()).value();
  JobJournal written = journal->job(0);
  written.open(JobId(1), {});
  written.begin({.link = 1, .sequence = 0});
  written.end({}, /*counts=*/true, milliseconds(10));
  const std::string status = std::get<wire::Text>(ask(wire::ServiceStatus{}, 3)).text;
  EXPECT_THAT(status, HasSubstr("\"iterations\":1,")) << "as the journal has it, in an open turn";
  EXPECT_THAT(status, HasSubstr("\"name\":\"digits\""));
  EXPECT_THAT(status, HasSubstr("{\"pid\":77,\"role\":\"active\",\"state\":\"ready\","));
  wire::SetPolicy policy;
  policy.policy = "no such thing";
  EXPECT_TRUE(std::holds_alternative<wire::Failure>(ask(policy, 4)));
  policy.policy = "srtf";
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(policy, 5)));
  start();
  EXPECT_THAT(std::get<wire::Text>(ask(wire::ServiceStatus{}, 6)).text,
              HasSubstr("\"policy\":\"srtf\""));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::Shutdown{}, 7)));
  crank_until([&] { return shutdown_requested_; });
  tell(wire::supervisor_to_broker::Stop{}, {});
  crank_until([&] { return stopped_; });
  EXPECT_TRUE(worker_.jobs.empty());
  EXPECT_FALSE(broker_->step(Duration()));
  EXPECT_TRUE(broker_->result().ok());
}

TEST_F(BrokerLoop, APolicyFromOutsideIsToldOfTheJobsAndGivenUpForNonsense) {
  policy_ = "/nowhere/mine:key=value";
  start();
  join();
  const auto status = [this](uint64_t number) {
    return std::get<wire::Text>(ask(wire::ServiceStatus{}, number)).text;
  };
  EXPECT_THAT(status(2), HasSubstr("\"policy_process\":{\"state\":\"stopped\",\"pid\":null,"
                                   "\"reason\":\"it is being started\"}"));
  auto ends = testing::PolicyPeer::pair();
  testing::PolicyPeer& peer = ends.first;
  std::vector<Descriptor> fds;
  fds.push_back(std::move(ends.second));
  tell(wire::supervisor_to_broker::PolicyNews{.pid = 55, .reason = "it was late"}, std::move(fds));
  policy_peer_ = &peer;
  crank_until([&] { return peer.was_greeted(); });
  peer.say(plugin::hello());
  send_descriptor_message(3);
  ask(job("digits"), 3);
  crank_until([&] { return peer.jobs() > 0; });
  EXPECT_THAT(status(4), HasSubstr("\"policy_process\":{\"state\":\"running\",\"pid\":55,"
                                   "\"reason\":\"it was late\"}"));
  // Another core, for another worker: it is told all again.
  const int told = peer.jobs();
  worker_.restart();
  wire::supervisor_to_broker::WorkerDown down;
  down.pid = 77;
  tell(down, {});
  connect_worker();
  crank_until([&] { return peer.jobs() > told; });
  policy_peer_ = nullptr;
  const std::string line = "a line that was printed";
  peer.say(std::as_bytes(std::span(line)));
  crank_until([&] { return !policy_failed_.empty(); });
  EXPECT_THAT(policy_failed_, HasSubstr("descriptor 3"));
  EXPECT_THAT(status(5), HasSubstr("\"policy_process\":{\"state\":\"stopped\",\"pid\":null"));
}

TEST_F(BrokerLoop, AFileOfAPolicyIsTakenByItsAbsolutePathAndChecked) {
  join();
  wire::SetPolicy policy;
  policy.policy = "./mine.py";
  EXPECT_THAT(std::get<wire::Failure>(ask(policy, 2)).message, HasSubstr("absolute path"));
  policy.policy = "/nowhere/mine.py";
  EXPECT_THAT(std::get<wire::Failure>(ask(policy, 3)).message, HasSubstr("/nowhere/mine.py"));
  EXPECT_THAT(std::get<wire::Text>(ask(wire::ServiceStatus{}, 4)).text,
              HasSubstr("\"policy_process\":null"));
}

TEST_F(BrokerLoop, ThePoolKeepsItsNewSizeUnderAnotherBroker) {
  join();
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::SetPool{.bytes = 64'001}, 2)).message,
              HasSubstr("more than the service was started with: give at most 62.5 KiB"));
  EXPECT_TRUE(std::holds_alternative<wire::Failure>(ask(wire::SetPool{.bytes = UINT64_MAX}, 3)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::SetPool{.bytes = 0}, 4)).message,
              HasSubstr("leaves nothing for jobs"));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::SetPool{.bytes = 32'000}, 5)));
  const auto pool = [this](uint64_t number) {
    return std::get<wire::Text>(ask(wire::ServiceStatus{}, number)).text;
  };
  const char* const smaller =
      "{\"capacity_bytes\":32000,\"wanted_bytes\":32000,\"made_bytes\":64000,";
  EXPECT_THAT(pool(6), HasSubstr(smaller));
  start();
  EXPECT_THAT(pool(7), HasSubstr(smaller));
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::SetPool{.bytes = 64'000}, 8)));
  start();
  EXPECT_THAT(pool(9), HasSubstr("{\"capacity_bytes\":64000,\"wanted_bytes\":64000,"));
}

// What the core heard and decided, in the words of laneway-trace, and the kinds of other records.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  auto reader = TraceReader::open(path);
  if (!reader) return lines;
  while (true) {
    const auto record = reader.value().next();
    if (!record || !record.value()) return lines;
    lines.push_back(entry_text(record.value()->entry, {}));
  }
}

TEST_F(BrokerLoop, IsRecordedFromAMomentOnBeginningWithWhatThereIs) {
  using ::testing::StartsWith;
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  take_frame();
  wire::WaitJob wait;
  wait.job = 1;
  wait.timeout_ms = 1000;
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 3)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::EndRecord{}, 4)).message,
              HasSubstr("nothing is recorded"));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::StartRecord{.file = "record"}, 5)).message,
              HasSubstr("'record' is no absolute path"));
  EXPECT_THAT(
      std::get<wire::Failure>(ask(wire::StartRecord{.file = folder.path() + "/no/x"}, 6)).message,
      HasSubstr("/no/x'"));
  const uint64_t reports = worker_.reports;
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::StartRecord{.file = path}, 7)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::StartRecord{.file = path + "2"}, 8)).message,
              HasSubstr("recorded already, in '" + path));
  crank_until([&] { return worker_.reports > reports; });
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 9))) << "it is as before";
  ask(wire::SetPolicy{.policy = "srtf"}, 10);
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::EndRecord{}, 11)));
  ask(wire::SetPolicy{.policy = "fifo"}, 12);
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_GT(lines.size(), 6u);
  EXPECT_THAT(lines[0], StartsWith("started broker 1, pid"));
  EXPECT_THAT(lines[1], StartsWith("core of "));
  EXPECT_THAT(lines[2], StartsWith("handled 1 events"));
  EXPECT_THAT(lines[3], "heard WorkerLost") << "until there is a report";
  EXPECT_THAT(lines[4], StartsWith("core of "));
  EXPECT_THAT(lines[5], StartsWith("handled 1 events"));
  EXPECT_THAT(lines[6], StartsWith("heard WorkerReported 1 jobs"));
  EXPECT_THAT(lines, ::testing::Contains("policy srtf decides"));
  EXPECT_THAT(lines, ::testing::Not(::testing::Contains("policy fifo decides")));
  EXPECT_EQ(lines.back(), "ended");
  EXPECT_EQ(worker_.jobs.size(), 1u);
}

TEST_F(BrokerLoop, ARecordEndsWithTheSessionThatAskedForIt) {
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  join();
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::StartRecord{.file = path}, 2)));
  lifeline_ = Channel();
  crank_until([&] {
    const std::vector<std::string> lines = lines_of(path);
    return !lines.empty() && lines.back() == "ended";
  });
}

TEST_F(BrokerLoop, EndsWhenItsSupervisorIsGoneOrSpeaksNonsense) {
  channel_ = Channel();
  while (broker_->step(milliseconds(1))) {
  }
  EXPECT_FALSE(broker_->result().ok());
  auto ends = Channel::pair();
  Broker second(std::move(ends.value().second), clock_);
  const std::vector<std::byte> nonsense(50, std::byte{7});
  ASSERT_TRUE(ends.value().first.send(nonsense).ok());
  while (second.step(milliseconds(1))) {
  }
  EXPECT_FALSE(second.result().ok());
}

TEST_F(BrokerLoop, AJobWaitsForAWorkerThatDied) {
  join();
  worker_.restart();
  wire::supervisor_to_broker::WorkerDown down;
  down.pid = 77;
  tell(down, {});
  send_descriptor_message(2);
  send(job("digits"), 2);
  crank_until([&] {
    return std::any_of(held_.begin(), held_.end(),
                       [](const Entry& entry) { return entry.key == "j/1"; });
  });
  connect_worker();
  EXPECT_TRUE(std::holds_alternative<wire::JobCreated>(answer(job("digits"), 2)));
}

}  // namespace
}  // namespace laneway::service

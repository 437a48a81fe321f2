// Shows what SessionTable alone decides: numbers of sessions are held in steps and never given
// again by a successor, a session is found by number, token and Hello of its own process only, and
// nothing of an erased session is held any more.
#include "service/broker/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/clock.h"
#include "service/broker/limits.h"
#include "tests/service/broker/gateway_rig.h"

namespace laneway::service {
namespace {

using laneway::testing::FakeStore;
using laneway::testing::some_descriptors;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CountingStore final : public DescriptorStore {
 public:
  uint64_t hold(std::string key, std::vector<std::byte> note,
                std::vector<Descriptor> fds) override {
    if (key == "s/ids") ++ids_held;
    return store.hold(std::move(key), std::move(note), std::move(fds));
  }
  uint64_t renote(std::string key, std::vector<std::byte> note, size_t descriptors) override {
    return store.renote(std::move(key), std::move(note), descriptors);
  }
  void release(const std::string& key) override { store.release(key); }

  FakeStore store;
  int ids_held = 0;
};

PeerCredentials process(uint32_t number) {
  PeerCredentials peer;
  peer.uid = 1000 + number;
  peer.pid = static_cast<pid_t>(100 + number);
  return peer;
}

class SessionTableTest : public ::testing::Test {
 protected:
  // What a successor knows of the sessions' numbers.
  SessionId first_of_successor() {
    Quotas quotas;
    SessionTable successor(store_, quotas, clock_);
    for (const std::string& key : std::vector<std::string>(store_.store.order)) {
      successor.restore(key, store_.store.entries.at(key).note, {});
    }
    return successor.open(process(999), "next").value()->who().id;
  }

  ManualClock clock_;
  CountingStore store_;
  Quotas quotas_;
  SessionTable table_{store_, quotas_, clock_};
};

TEST_F(SessionTableTest, NumbersAreHeldInStepsAndASuccessorGivesNoneAgain) {
  std::set<SessionId> given;
  for (uint32_t i = 0; i < 65; ++i) {
    ClientSession* const session = table_.open(process(i), "client").value();
    EXPECT_TRUE(given.insert(session->who().id).second);
    table_.erase(session->who().id);
  }
  EXPECT_EQ(store_.ids_held, 2);
  EXPECT_THAT(store_.store.order, ElementsAre("s/ids"));
  EXPECT_EQ(given.count(first_of_successor()), 0u);
}

TEST_F(SessionTableTest, ASessionIsFoundByNumberTokenAndItsOwnHello) {
  ClientSession* const session = table_.open(process(1), "client").value();
  session->set_hello("route", 1);
  EXPECT_EQ(table_.find(session->who().id), session);
  EXPECT_EQ(table_.find(session->who().token), session);
  EXPECT_EQ(table_.find_hello(process(1), "route", 1), session);
  PeerCredentials other = process(1);
  other.pid += 1;
  EXPECT_EQ(table_.find_hello(other, "route", 1), nullptr) << "another process of the user";
  other = process(1);
  other.uid += 1;
  EXPECT_EQ(table_.find_hello(other, "route", 1), nullptr) << "another user's";
  EXPECT_EQ(table_.find_hello(process(1), "route", 2), nullptr) << "another Hello";
  EXPECT_EQ(table_.find(wire::Token{}), nullptr);
}

TEST_F(SessionTableTest, NothingOfAnErasedSessionIsHeld) {
  ClientSession* const session = table_.open(process(1), "client").value();
  const SessionId id = session->who().id;
  const wire::Token token = session->who().token;
  table_.add_descriptor_message(*session, 7, {.bytes = {}, .fds = some_descriptors(2)});
  EXPECT_EQ(store_.store.entries.at("p/1/7").fds.size(), 2u);
  table_.erase(id);
  EXPECT_THAT(store_.store.order, ElementsAre("s/ids"));
  EXPECT_EQ(table_.find(id), nullptr);
  EXPECT_EQ(table_.find(token), nullptr);
}

TEST_F(SessionTableTest, ASessionWithoutALifelineIsDueWhenItsTimeIsOver) {
  ClientSession* const session = table_.open(process(1), "client").value();
  EXPECT_THAT(table_.due(), IsEmpty());
  EXPECT_EQ(table_.next_due(), clock_.now() + limits::kLifelinePatience);
  clock_.advance(limits::kLifelinePatience);
  EXPECT_THAT(table_.due(), ElementsAre(session->who().id));
}

}  // namespace
}  // namespace laneway::service

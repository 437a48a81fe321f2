// RegistryRig: the registry with its core, between a supervisor's table, a fake worker and clients
// whose answers are kept. A death of the broker is an exception thrown out of what it says to the
// outside (before or after it took effect); a new registry is then made from what was held.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "service/broker/job_registry.h"
#include "tests/service/broker/fake_worker.h"

namespace laneway::service {

struct Killed {};

// Comes at the n-th thing that is said to the outside.
class Death {
 public:
  void arm(uint64_t nth) { left_ = nth; }
  uint64_t passed() const { return passed_; }
  void pass() {
    ++passed_;
    if (left_ > 0 && --left_ == 0) throw Killed();
  }

 private:
  uint64_t left_ = 0;
  uint64_t passed_ = 0;
};

class HeldThings final : public DescriptorStore {
 public:
  struct Entry {
    std::string key;
    std::vector<std::byte> note;
    std::vector<Descriptor> fds;
  };

  explicit HeldThings(Death& death) : death_(death) {}
  uint64_t hold(std::string key, std::vector<std::byte> note, std::vector<Descriptor> fds) override;
  uint64_t renote(std::string key, std::vector<std::byte> note, size_t descriptors) override;
  void release(const std::string& key) override;
  std::set<std::string> keys() const;
  // Says of each hold of this broker that was not answered yet what became of it; false: of none.
  bool answer(JobRegistry& registry);
  // Another broker, which counts its holds anew.
  void begin_anew() {
    last_ = told_ = 0;
    refused_.clear();
  }

  std::list<Entry> entries;
  std::set<std::string> no_room;  // keys that it does not take
  bool answers = true;            // else it does not run

 private:
  std::list<Entry>::iterator find(const std::string& key);

  Death& death_;
  uint64_t last_ = 0;
  uint64_t told_ = 0;
  std::map<uint64_t, std::string> refused_;  // not said yet
};

class RegistryRig {
 public:
  explicit RegistryRig(int64_t pool_bytes = 64'000) : pool_bytes_(pool_bytes) {
    // As the service's programs do: doorbells are rung for clients who are gone.
    std::signal(SIGPIPE, SIG_IGN);
    start();
  }

  // A new broker is told what is held, and its worker is connected.
  void start();
  // Until nobody has anything to say.
  void settle();
  void restart_worker();

  static Requester from(uint64_t session, uint64_t number, uint32_t user = 1000) {
    return {{SessionId(session), number}, user};
  }
  static wire::CreateJob job(const std::string& name, uint64_t bytes, bool has_initial = false);
  static std::vector<Descriptor> files(size_t count);
  bool answered(uint64_t session, uint64_t number) const {
    return answers.count({session, number}) > 0;
  }
  // The answer to it, which must be of this kind.
  template <class M>
  M get(uint64_t session, uint64_t number) {
    settle();
    EXPECT_TRUE(answered(session, number)) << "no answer to " << number << " of " << session;
    const wire::AnyReply& reply = answers[{session, number}].reply;
    if (const M* found = std::get_if<M>(&reply)) return *found;
    const auto* failure = std::get_if<wire::Failure>(&reply);
    ADD_FAILURE() << "another answer: " << (failure ? failure->message : "no failure");
    return {};
  }
  // Its id, when it has its memory.
  uint64_t create(uint64_t session, uint64_t number, const std::string& name, uint64_t bytes,
                  bool shared = false);
  JobRegistry& registry() { return *registry_; }
  BrokerCore& core() { return *core_; }
  Replies& replies() { return *replies_; }
  Quotas& quotas() { return *quotas_; }

  struct Answer {
    wire::AnyReply reply;
    size_t fds = 0;
  };

  Death death;
  ManualClock clock;
  Quotas::Limits limits = Quotas::defaults();  // of the broker that starts next
  TorchVersions torch;                         // of the worker that is connected next
  HeldThings held{death};
  FakeWorker worker;
  std::set<SessionId> sessions{SessionId(1), SessionId(2)};
  std::map<std::pair<uint64_t, uint64_t>, Answer> answers;

 private:
  int64_t pool_bytes_;
  // The broker's memory: gone when it dies.
  std::unique_ptr<Quotas> quotas_;
  std::unique_ptr<WorkerLink> link_;
  std::unique_ptr<Replies> replies_;
  std::unique_ptr<JobRegistry> registry_;
  std::unique_ptr<BrokerCore> core_;
};

}  // namespace laneway::service

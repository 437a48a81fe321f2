// EmbeddedPolicy: a policy from outside the tree in the user's process: stands between the core and
// the worker, takes out what the policy's process is to be told, and talks to that process on a
// thread of its own, which starts it, kills it and reaps it as the supervisor and the broker do
// together. Without such a policy there is no thread, and all actions go on to the worker.
// Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "lanes/core/core_loop.h"
#include "service/broker/policy_link.h"
#include "service/supervisor/policy_process.h"
#include "service/transport/descriptor.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

class EmbeddedPolicy final : public lanes::ActionSink {
 public:
  // `user`: whose process this is. Worker and clock outlive this object.
  EmbeddedPolicy(lanes::ActionSink& worker, std::string user, const Clock& clock);
  ~EmbeddedPolicy() override { stop(); }

  // Before the loop carries anything out. Must not be destroyed before stop().
  void set_core(lanes::CoreLoop& core) { core_ = &core; }
  void carry_out(const std::vector<lanes::Action>& actions) override LW_EXCLUDES(mutex_);
  // The policy of the core is this from now on; a file has its absolute path. Error failed when
  // there is no thread or descriptor left for it.
  Status set(const std::string& policy) LW_EXCLUDES(mutex_);
  // Nothing: the policy is one of the tree.
  std::optional<wire::PolicyProcessFacts> facts() LW_EXCLUDES(mutex_);
  // Ends process and thread; the core is not touched any more. Idempotent.
  void stop() LW_EXCLUDES(mutex_);

 private:
  // What other threads left for the own one.
  struct Orders {
    bool stop = false;
    std::optional<std::string> policy;
    std::map<JobId, lanes::TellPolicy> news;
  };
  // Of the own thread.
  struct Own {
    PolicyProcess process{PolicyProcess::Times{}};
    std::optional<PolicyLink> link{};
    Descriptor watch{};  // readable when the process has ended
    pid_t pid = 0;
    std::string options{};
    std::string reason{};
  };

  void run() LW_EXCLUDES(mutex_);
  Orders take_orders() LW_EXCLUDES(mutex_);
  void ring() const;
  void set_policy(Own& own, const std::string& policy);
  void tend_process(Own& own);
  void talk(Own& own) LW_EXCLUDES(mutex_);
  void drop_link(Own& own);
  void publish(const Own& own) LW_EXCLUDES(mutex_);
  void wait(const Own& own) const;

  lanes::ActionSink& worker_;
  const std::string user_;
  const Clock& clock_;
  lanes::CoreLoop* core_ = nullptr;
  Descriptor bell_;
  Mutex mutex_;
  bool is_outside_ LW_GUARDED_BY(mutex_) = false;  // the policy is none of the tree
  Orders orders_ LW_GUARDED_BY(mutex_);
  wire::PolicyProcessFacts facts_ LW_GUARDED_BY(mutex_);
  std::thread thread_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service

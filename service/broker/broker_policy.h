// BrokerPolicy: a policy from outside the tree, between the core, which asks nobody and is told,
// and the process that the supervisor starts. Without one, or while there is none, it does nothing,
// and fifo decides (policies/advised.h). Not thread-safe.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "service/broker/broker_core.h"
#include "service/broker/policy_link.h"
#include "service/broker/supervisor_link.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

class BrokerPolicy final : public ToldPolicy {
 public:
  // `user_of`: whose job it is, for people. All outlive this object.
  BrokerPolicy(SupervisorLink& supervisor, std::function<std::string(JobId)> user_of,
               const Clock& clock)
      : supervisor_(supervisor), user_of_(std::move(user_of)), clock_(clock) {}

  // Before anything else is called.
  void set_core(BrokerCore& core) { core_ = &core; }
  // The policy is this from now on; the supervisor knows, and its process is another one then.
  void policy_set(const std::string& policy);
  // What the supervisor said of its process.
  void on(const wire::supervisor_to_broker::PolicyNews& news, std::vector<Descriptor> fds);

  void tell(const lanes::TellPolicy& news) override;

  void add_to_poll(std::vector<pollfd>& entries) const;
  TimePoint next_wakeup() const { return link_ ? link_->next_wakeup() : TimePoint::never(); }
  // Says and hears what there is, and gives up a process that is late or talks nonsense.
  void serve();

  // Nothing: the policy is one of the tree.
  std::optional<wire::PolicyProcessFacts> facts() const;

 private:
  void drop_link();

  SupervisorLink& supervisor_;
  const std::function<std::string(JobId)> user_of_;
  const Clock& clock_;
  BrokerCore* core_ = nullptr;
  std::optional<std::string> options_;  // of a policy from outside
  std::optional<PolicyLink> link_;
  int32_t pid_ = 0;
  std::string reason_;  // why the last process ended
};

}  // namespace laneway::service

#include "service/broker/broker_policy.h"

#include <utility>

#include "base/log.h"
#include "policies/registry.h"

namespace laneway::service {

void BrokerPolicy::policy_set(const std::string& policy) {
  drop_link();
  reason_.clear();
  const auto plugin = policies::plugin_of(policy);
  options_ = plugin ? std::optional(plugin->options) : std::nullopt;
}

void BrokerPolicy::on(const wire::supervisor_to_broker::PolicyNews& news,
                      std::vector<Descriptor> fds) {
  // Said before the supervisor heard of another policy.
  if (!options_) return;
  drop_link();
  reason_ = news.reason;
  if (fds.empty()) return;
  pid_ = news.pid;
  link_.emplace(std::move(fds[0]), *options_, clock_.now());
}

void BrokerPolicy::drop_link() {
  const bool advised = link_ && link_->has_begun();
  link_.reset();
  pid_ = 0;
  if (advised) core_->adviser(lanes::AdviserNews::gone);
}

void BrokerPolicy::tell(const lanes::TellPolicy& news) {
  if (link_) link_->tell(news, news.gone ? std::string() : user_of_(news.facts.job));
}

void BrokerPolicy::add_to_poll(std::vector<pollfd>& entries) const {
  if (!link_) return;
  if (const auto entry = link_->poll_entry()) entries.push_back(*entry);
}

void BrokerPolicy::serve() {
  if (!link_) return;
  const TimePoint now = clock_.now();
  std::vector<lanes::Event> advice;
  for (lanes::Event& event : link_->hear(now)) {
    const auto* changed = std::get_if<lanes::AdviserChanged>(&event);
    if (changed == nullptr) {
      advice.push_back(std::move(event));
      continue;
    }
    if (changed->news == lanes::AdviserNews::came) {
      log_info("the policy's process " + std::to_string(pid_) + " decides");
    }
    core_->adviser(changed->news);
  }
  if (!advice.empty()) core_->post(std::move(advice));
  link_->say(now);
  if (!link_->fault()) return;
  const PolicyLink::Fault fault = *link_->fault();
  wire::broker_to_supervisor::PolicyFailed message;
  message.pid = pid_;
  message.why = fault.why;
  message.hung_up = fault.hung_up;
  supervisor_.notify(message);
  drop_link();
  reason_ = fault.why;
}

std::optional<wire::PolicyProcessFacts> BrokerPolicy::facts() const {
  if (!options_) return std::nullopt;
  wire::PolicyProcessFacts facts;
  facts.is_running = link_ && link_->has_begun();
  if (link_) facts.pid = pid_;
  facts.reason = reason_;
  if (link_ && !facts.is_running && reason_.empty()) facts.reason = "it has not said hello yet";
  if (!link_ && reason_.empty()) facts.reason = "it is being started";
  return facts;
}

}  // namespace laneway::service

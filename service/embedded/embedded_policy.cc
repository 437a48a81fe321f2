#include "service/embedded/embedded_policy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "policies/registry.h"

namespace laneway::service {

EmbeddedPolicy::EmbeddedPolicy(lanes::ActionSink& worker, std::string user, const Clock& clock)
    : worker_(worker), user_(std::move(user)), clock_(clock) {}

void EmbeddedPolicy::carry_out(const std::vector<lanes::Action>& actions) {
  const auto tells = [](const lanes::Action& action) {
    return std::holds_alternative<lanes::TellPolicy>(action);
  };
  if (std::none_of(actions.begin(), actions.end(), tells)) return worker_.carry_out(actions);
  std::vector<lanes::Action> others;
  {
    MutexLock lock(mutex_);
    for (const lanes::Action& action : actions) {
      const auto* tell = std::get_if<lanes::TellPolicy>(&action);
      if (tell == nullptr) {
        others.push_back(action);
      } else {
        orders_.news[tell->facts.job] = *tell;
      }
    }
  }
  if (!others.empty()) worker_.carry_out(others);
  ring();
}

Status EmbeddedPolicy::set(const std::string& policy) {
  MutexLock lock(mutex_);
  is_outside_ = policies::plugin_of(policy).has_value();
  if (!thread_.joinable() && !is_outside_) return {};
  facts_ = {.is_running = false, .pid = {}, .reason = "it is being started"};
  orders_.policy = policy;
  if (!bell_.valid()) {
    bell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_.valid()) {
      return Error{ErrorCode::failed,
                   std::string("no descriptor for the policy: ") + std::strerror(errno)};
    }
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  ring();
  return {};
}

std::optional<wire::PolicyProcessFacts> EmbeddedPolicy::facts() {
  MutexLock lock(mutex_);
  return is_outside_ ? std::optional(facts_) : std::nullopt;
}

void EmbeddedPolicy::stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    orders_.stop = true;
    thread.swap(thread_);
  }
  if (!thread.joinable()) return;
  ring();
  thread.join();
}

void EmbeddedPolicy::ring() const {
  if (!bell_.valid()) return;
  const uint64_t one = 1;
  // A bell that is full rings already.
  const ssize_t written = ::write(bell_.get(), &one, sizeof one);
  (void)written;
}

EmbeddedPolicy::Orders EmbeddedPolicy::take_orders() {
  uint64_t rings = 0;
  const ssize_t got = ::read(bell_.get(), &rings, sizeof rings);
  (void)got;
  MutexLock lock(mutex_);
  Orders orders = std::exchange(orders_, {});
  orders_.stop = orders.stop;
  return orders;
}

void EmbeddedPolicy::run() {
  Own own;
  own.process.partner_came(clock_.now());
  while (true) {
    const Orders orders = take_orders();
    if (orders.stop) break;
    if (orders.policy) set_policy(own, *orders.policy);
    // What was left for one that is gone is nothing for its successor, which is told of all jobs.
    for (const auto& [job, news] : orders.news) {
      if (own.link && own.link->has_begun()) own.link->tell(news, user_);
    }
    tend_process(own);
    talk(own);
    publish(own);
    wait(own);
  }
  own.process.stop();
}

void EmbeddedPolicy::set_policy(Own& own, const std::string& policy) {
  drop_link(own);
  own.reason.clear();
  const auto plugin = policies::plugin_of(policy);
  own.options = plugin ? plugin->options : "";
  own.process.set(plugin ? plugin->file : "", clock_.now());
}

void EmbeddedPolicy::tend_process(Own& own) {
  own.process.reap(clock_.now());
  if (own.process.pid() == 0) own.watch.reset();
  own.process.tend(clock_.now());
  for (PolicyProcess::News& news : own.process.take_news()) {
    drop_link(own);
    own.reason = news.reason;
    own.pid = news.pid;
    if (!news.socket.valid()) continue;
    own.watch = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, news.pid, 0)));
    own.link.emplace(std::move(news.socket), own.options, clock_.now());
  }
}

void EmbeddedPolicy::talk(Own& own) {
  if (!own.link) return;
  std::vector<lanes::Event> events = own.link->hear(clock_.now());
  if (!events.empty()) core_->post(std::move(events));
  own.link->say(clock_.now());
  if (!own.link->fault()) return;
  const PolicyLink::Fault fault = *own.link->fault();
  own.process.failed(own.pid, fault.why, fault.hung_up, clock_.now());
  drop_link(own);
  own.reason = fault.why;
}

void EmbeddedPolicy::drop_link(Own& own) {
  const bool advised = own.link && own.link->has_begun();
  own.link.reset();
  if (advised) core_->post(lanes::AdviserChanged{lanes::AdviserNews::gone});
}

void EmbeddedPolicy::publish(const Own& own) {
  MutexLock lock(mutex_);
  if (orders_.policy) return;  // these facts are of the policy before
  facts_.is_running = own.link && own.link->has_begun();
  facts_.pid = own.link ? std::optional<int32_t>(own.pid) : std::nullopt;
  facts_.reason = own.reason;
  if (facts_.is_running || !own.reason.empty()) return;
  facts_.reason = own.link ? "it has not said hello yet" : "it is being started";
}

void EmbeddedPolicy::wait(const Own& own) const {
  std::vector<pollfd> entries{{bell_.get(), POLLIN, 0}};
  TimePoint until = own.process.next_wakeup();
  if (own.watch.valid()) entries.push_back({own.watch.get(), POLLIN, 0});
  if (own.link) {
    if (const auto entry = own.link->poll_entry()) entries.push_back(*entry);
    until = std::min(until, own.link->next_wakeup());
  }
  constexpr int64_t kNsPerMs = 1'000'000;
  const int64_t ns = std::max<int64_t>((until - clock_.now()).ns(), 0);
  const int64_t ms = std::min<int64_t>((ns + kNsPerMs - 1) / kNsPerMs, 60'000);
  ::poll(entries.data(), entries.size(), static_cast<int>(ms));
}

}  // namespace laneway::service

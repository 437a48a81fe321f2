// Broker: sessions, jobs and the core in one loop: waits for the supervisor, the worker, clients
// and time, and lets each of them be handled by whoever knows it. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/broker_core.h"
#include "service/broker/broker_counters.h"
#include "service/broker/broker_policy.h"
#include "service/broker/gateway.h"
#include "service/broker/job_registry.h"
#include "service/broker/quotas.h"
#include "service/broker/replies.h"
#include "service/broker/requests.h"
#include "service/broker/supervisor_link.h"
#include "service/broker/trace_log.h"
#include "service/broker/worker_link.h"
#include "service/journal/journal_view.h"
#include "service/transport/channel.h"
#include "service/wire/client_replies.h"
#include "service/wire/service_facts.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class Broker {
 public:
  // `clock` outlives the broker.
  Broker(Channel supervisor, const Clock& clock);
  ~Broker();

  // Waits until something happens, at most so long, and handles it. False: nothing is left to be
  // done, for the reason that result() gives.
  bool step(Duration most);
  // Whether it ended as it should: stopped by its supervisor.
  const Status& result() const { return result_; }

  // Every session, job, link… that was held is known again, and clients are served.
  bool serving() const { return serving_; }

 private:
  void read_supervisor();
  Status on(const wire::supervisor_to_broker::Start& message, std::vector<Descriptor> fds);
  Status on(const wire::supervisor_to_broker::Held& message, std::vector<Descriptor> fds);
  Status on(const wire::supervisor_to_broker::HeldEnd& message, const std::vector<Descriptor>& fds);
  Status on(const wire::supervisor_to_broker::WorkerUp& message, std::vector<Descriptor> fds);
  Status on(const wire::supervisor_to_broker::WorkerDown& message,
            const std::vector<Descriptor>& fds);
  Status on(const wire::supervisor_to_broker::Stop& message, const std::vector<Descriptor>& fds);
  Status on(const wire::supervisor_to_broker::PolicyNews& message, std::vector<Descriptor> fds);
  Status on(const wire::supervisor_to_broker::ReopenLog& message,
            const std::vector<Descriptor>& fds);
  Status on(const wire::supervisor_to_broker::HoldsDone& message,
            const std::vector<Descriptor>& fds);
  Status on(const wire::supervisor_to_broker::HoldRefused& message,
            const std::vector<Descriptor>& fds);
  void wait(Duration most);
  void tend();
  void configure_log() const;
  // Maps the journal, the third descriptor of Start; where it is missing there is none.
  Status see_journal(const std::vector<Descriptor>& fds);
  void open_trace();
  void finish_stop();
  void end(Status result);
  uint64_t lost_records() const { return trace_ == nullptr ? 0 : trace_->lost(); }

  wire::StatusReply status(bool with_ended);
  std::vector<wire::LimitFacts> limit_facts() const;
  wire::WorkerFacts facts_of(const wire::supervisor_to_broker::WorkerUp& worker);
  Status set_policy(const std::string& policy);
  Status set_pool(Bytes wanted);
  // What an operator wants recorded from now on, beside --trace or instead of it.
  Status begin_record(SessionId session, const std::string& file);
  Status end_record();

  const Clock& clock_;
  Quotas quotas_;
  SupervisorLink supervisor_;
  WorkerLink worker_;
  std::unique_ptr<JournalView> journal_;
  Replies replies_;
  JobRegistry registry_;
  Requests requests_;
  wire::ServiceConfig config_;
  int32_t supervisor_pid_ = 0;
  int64_t started_unix_ns_ = 0;
  uint64_t epoch_ = 0;
  std::unique_ptr<TraceLog> trace_;  // none: not asked for, or the file is none
  BrokerPolicy policy_;
  BrokerCounters counters_;
  // What trace_ is for, if it is not for --trace.
  struct Recording {
    SessionId session;
    std::string file;
    Descriptor begun;  // keeps others from beginning the same file
  };
  std::optional<Recording> recording_;
  std::unique_ptr<BrokerCore> core_;
  std::unique_ptr<Gateway> gateway_;
  std::map<int32_t, wire::supervisor_to_broker::WorkerUp> workers_;  // by pid
  TimePoint next_heartbeat_;
  std::optional<TimePoint> worker_unreached_;  // since when, though nobody says that it died
  bool active_up_ = false;
  bool serving_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  Status result_;
};

}  // namespace laneway::service

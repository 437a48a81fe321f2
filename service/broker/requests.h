// Requests: what clients ask for, one function a kind: who may ask, and whom to ask. Not
// thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/ids.h"
#include "service/broker/gateway.h"
#include "service/broker/job_registry.h"
#include "service/broker/replies.h"
#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

class Requests final : public RequestSink {
 public:
  // What is not about jobs.
  struct Service {
    std::function<wire::StatusReply(bool with_ended)> status;
    std::function<Status(const std::string& policy)> set_policy;
    std::function<Status(Bytes wanted)> set_pool;
    std::function<Status(SessionId session, const std::string& file)> begin_record;
    std::function<Status()> end_record;
    // Ends what was recorded for it.
    std::function<void(SessionId session)> session_ended;
    std::function<void()> shut_down;
  };

  // Both outlive this object.
  Requests(JobRegistry& registry, Replies& replies, Service service)
      : registry_(registry), replies_(replies), service_(std::move(service)) {}

  void on_session(const Session& session) override;
  void on_session_end(SessionId session, bool died) override;
  void on_request(Request request) override;

  // Set when the service ends: every request is answered with this.
  void refuse_all(const Error& error) { closed_ = error; }
  const std::map<SessionId, Session>& sessions() const { return sessions_; }

 private:
  using Fds = std::vector<Descriptor>;

  // The service's owner, or root.
  static bool is_operator(const Requester& from);
  Status require_operator(const Requester& from, const char* what) const;
  void answer(const Requester& from, const Status& done);

  void handle(const Requester& from, const wire::CreateJob& request, Fds fds);
  void handle(const Requester& from, const wire::AttachJob& request, Fds fds);
  void handle(const Requester& from, const wire::AddGraph& request, Fds fds);
  void handle(const Requester& from, const wire::DropGraph& request, Fds fds);
  void handle(const Requester& from, const wire::AddSegment& request, Fds fds);
  void handle(const Requester& from, const wire::DropSegment& request, Fds fds);
  void handle(const Requester& from, const wire::CloseJob& request, Fds fds);
  void handle(const Requester& from, const wire::WaitJob& request, Fds fds);
  void handle(const Requester& from, const wire::JobReport& request, Fds fds);
  void handle(const Requester& from, const wire::ServiceStatus& request, Fds fds);
  void handle(const Requester& from, const wire::KillJob& request, Fds fds);
  void handle(const Requester& from, const wire::ReleaseJob& request, Fds fds);
  void handle(const Requester& from, const wire::SetResidency& request, Fds fds);
  void handle(const Requester& from, const wire::SetJob& request, Fds fds);
  void handle(const Requester& from, const wire::SetPolicy& request, Fds fds);
  void handle(const Requester& from, const wire::SetPool& request, Fds fds);
  void handle(const Requester& from, const wire::StartRecord& request, Fds fds);
  void handle(const Requester& from, const wire::EndRecord& request, Fds fds);
  void handle(const Requester& from, const wire::Shutdown& request, Fds fds);
  // The gateway's own; they do not come here.
  void handle(const Requester& from, const wire::Hello& request, Fds fds);
  void handle(const Requester& from, const wire::Bye& request, Fds fds);

  JobRegistry& registry_;
  Replies& replies_;
  Service service_;
  std::map<SessionId, Session> sessions_;
  std::optional<Error> closed_;
};

}  // namespace laneway::service

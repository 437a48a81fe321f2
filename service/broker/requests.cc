#include "service/broker/requests.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/printable.h"

namespace laneway::service {

void Requests::on_session(const Session& session) {
  log_info("session " + std::to_string(session.id.value()) + " of user " +
           std::to_string(session.uid) + ": " + printable(session.name));
  sessions_[session.id] = session;
}

void Requests::on_session_end(SessionId session, bool died) {
  log_info("session " + std::to_string(session.value()) + (died ? " is gone" : " said goodbye"));
  sessions_.erase(session);
  registry_.session_ended(session, died);
  service_.session_ended(session);
}

void Requests::on_request(Request request) {
  Requester from;
  from.to = {request.session, request.number};
  const auto session = sessions_.find(request.session);
  if (session == sessions_.end()) return;  // it ended while this was on its way
  from.user = session->second.uid;
  if (closed_) return replies_.fail(from.to, *closed_);
  std::visit([&](const auto& message) { handle(from, message, std::move(request.fds)); },
             request.message);
}

bool Requests::is_operator(const Requester& from) {
  return from.user == 0 || from.user == ::geteuid();
}

Status Requests::require_operator(const Requester& from, const char* what) const {
  if (is_operator(from)) return {};
  return Error{ErrorCode::refused, std::string("only the service's owner and root may ") + what};
}

void Requests::answer(const Requester& from, const Status& done) {
  if (!done) return replies_.fail(from.to, done.error());
  replies_.send(from.to, wire::Done{});
}

void Requests::handle(const Requester& from, const wire::CreateJob& request, Fds fds) {
  registry_.create(from, request, std::move(fds));
}

void Requests::handle(const Requester& from, const wire::AttachJob& request, Fds /*fds*/) {
  registry_.parts().attach(from, request);
}

void Requests::handle(const Requester& from, const wire::AddGraph& request, Fds fds) {
  registry_.parts().add_graph(from, request, std::move(fds));
}

void Requests::handle(const Requester& from, const wire::DropGraph& request, Fds /*fds*/) {
  registry_.parts().drop_graph(from, request);
}

void Requests::handle(const Requester& from, const wire::AddSegment& request, Fds fds) {
  registry_.parts().add_segment(from, request, std::move(fds));
}

void Requests::handle(const Requester& from, const wire::DropSegment& request, Fds /*fds*/) {
  registry_.parts().drop_segment(from, request);
}

void Requests::handle(const Requester& from, const wire::CloseJob& request, Fds /*fds*/) {
  registry_.close(from, request);
}

void Requests::handle(const Requester& from, const wire::WaitJob& request, Fds /*fds*/) {
  registry_.wait(from, request);
}

void Requests::handle(const Requester& from, const wire::JobReport& request, Fds /*fds*/) {
  registry_.report(from, request, is_operator(from));
}

void Requests::handle(const Requester& from, const wire::ServiceStatus& request, Fds /*fds*/) {
  replies_.send(from.to, service_.status(request.with_ended));
}

void Requests::handle(const Requester& from, const wire::KillJob& request, Fds /*fds*/) {
  registry_.kill(from, request, is_operator(from));
}

void Requests::handle(const Requester& from, const wire::ReleaseJob& request, Fds /*fds*/) {
  registry_.release(from, request, is_operator(from));
}

void Requests::handle(const Requester& from, const wire::SetResidency& request, Fds /*fds*/) {
  registry_.set_residency(from, request, is_operator(from));
}

void Requests::handle(const Requester& from, const wire::SetJob& request, Fds /*fds*/) {
  registry_.set(from, request, is_operator(from));
}

void Requests::handle(const Requester& from, const wire::SetPolicy& request, Fds /*fds*/) {
  if (Status may = require_operator(from, "set its policy"); !may) {
    return replies_.fail(from.to, may.error());
  }
  answer(from, service_.set_policy(request.policy));
}

void Requests::handle(const Requester& from, const wire::SetPool& request, Fds /*fds*/) {
  if (Status may = require_operator(from, "change its pool"); !may) {
    return replies_.fail(from.to, may.error());
  }
  const uint64_t most = INT64_MAX;  // what no pool has either
  const Bytes wanted(static_cast<int64_t>(std::min(request.bytes, most)));
  answer(from, service_.set_pool(wanted));
}

void Requests::handle(const Requester& from, const wire::StartRecord& request, Fds /*fds*/) {
  if (Status may = require_operator(from, "record it"); !may) {
    return replies_.fail(from.to, may.error());
  }
  answer(from, service_.begin_record(from.to.session, request.file));
}

void Requests::handle(const Requester& from, const wire::EndRecord& /*request*/, Fds /*fds*/) {
  if (Status may = require_operator(from, "end its record"); !may) {
    return replies_.fail(from.to, may.error());
  }
  answer(from, service_.end_record());
}

void Requests::handle(const Requester& from, const wire::Shutdown& /*request*/, Fds /*fds*/) {
  if (Status may = require_operator(from, "shut it down"); !may) {
    return replies_.fail(from.to, may.error());
  }
  replies_.send(from.to, wire::Done{});
  service_.shut_down();
}

void Requests::handle(const Requester& from, const wire::Hello& /*request*/, Fds /*fds*/) {
  replies_.fail(from.to, {ErrorCode::invalid_argument, "this session said hello before"});
}

void Requests::handle(const Requester& from, const wire::Bye& /*request*/, Fds /*fds*/) {
  replies_.send(from.to, wire::Done{});
}

}  // namespace laneway::service

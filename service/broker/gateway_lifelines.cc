// Gateway, the lifelines: whose they are, the descriptors that come over them, and their end.
#include <sys/epoll.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "service/broker/gateway.h"
#include "service/broker/gateway_parts.h"
#include "service/transport/unix_socket.h"
#include "service/wire/codec.h"
#include "service/wire/held_session.h"

namespace laneway::service {
namespace {

// Copies to be held; fewer than `fds` when the process has no descriptors left.
std::vector<Descriptor> copies_of(const std::vector<Descriptor>& fds) {
  std::vector<Descriptor> copies;
  for (const Descriptor& fd : fds) {
    Result<Descriptor> copy = fd.duplicate();
    if (copy) copies.push_back(std::move(copy).value());
  }
  return copies;
}

}  // namespace

void Gateway::accept_connections() {
  for (int i = 0; i < gateway::kFramesAtOnce; ++i) {
    Result<std::optional<Descriptor>> accepted = accept_unix(lifelines_);
    if (!accepted) return log_error(accepted.error().message);
    if (!accepted.value()) return;
    Channel channel(std::move(*accepted.value()), kLifelineLimits);
    const std::optional<PeerCredentials> peer = channel.peer();
    if (!peer) continue;
    const auto of_user =
        std::count_if(pending_connections_.begin(), pending_connections_.end(),
                      [&](const auto& one) { return one.second.peer.uid == peer->uid; });
    if (of_user >= limits::kMaxPendingConnectionsPerUser) {
      ++counters_.refused;
      continue;
    }
    const uint64_t id = ++last_pending_;
    watch(channel.descriptor(), gateway::kPendingConnection | id, EPOLLIN, true);
    pending_connections_[id] = {.id = id,
                                .channel = std::move(channel),
                                .peer = *peer,
                                .until = clock_.now() + limits::kLifelinePatience};
  }
}

void Gateway::read_pending(uint64_t id) {
  const auto place = pending_connections_.find(id);
  if (place == pending_connections_.end()) return;
  PendingConnection& pending = place->second;
  Result<std::optional<Frame>> frame = pending.channel.receive();
  if (frame.ok() && !frame.value()) return;
  Status opened;
  if (frame.ok()) {
    opened = on_lifeline_hello(pending, *frame.value());
    if (!opened) {
      (void)pending.channel.send(
          wire::encode(wire::Failure{opened.error().code, opened.error().message}, {}));
    }
  } else {
    // Hanging up without a word is no fault: a client may look whether anybody is there.
    if (frame.error().code == ErrorCode::invalid_argument) ++counters_.malformed;
  }
  // One that is a session's now has moved there.
  if (pending.channel.valid()) unwatch(pending.channel.descriptor());
  pending_connections_.erase(place);
}

Status Gateway::on_lifeline_hello(PendingConnection& pending, const Frame& frame) {
  const Result<wire::LifelineHello> hello = wire::decode_message<wire::LifelineHello>(frame.bytes);
  if (!hello || !frame.fds.empty()) {
    ++counters_.malformed;
    return hello ? Error{ErrorCode::invalid_argument, "LifelineHello brings no descriptors"}
                 : hello.error();
  }
  const SessionPlace place = sessions_.find(SessionId(hello.value().session));
  if (place == sessions_.end() || place->second.who().token != hello.value().token) {
    ++counters_.refused;
    return Error{ErrorCode::refused,
                 "the service has no session of this number and token: connect again"};
  }
  ClientSession& session = place->second;
  if (pending.peer.uid != session.who().uid || pending.peer.pid != session.who().pid) {
    ++counters_.refused;
    return Error{ErrorCode::refused, "this session belongs to another process"};
  }
  if (session.open()) {
    ++counters_.refused;
    return Error{ErrorCode::refused, "this session has its lifeline already"};
  }
  unwatch(pending.channel.descriptor());
  session.open_with(std::move(pending.channel));
  hold_session(session.who(), &session.lifeline());
  fault_point("broker.lifeline");
  const Session who = session.who();
  (void)session.lifeline().send(wire::encode(wire::LifelineReady{}, {.token = who.token}));
  watch_lifeline(place, true);
  sink_.on_session(who);
  return {};
}

void Gateway::hold_session(const Session& session, const Channel* lifeline) {
  std::vector<Descriptor> fds;
  if (lifeline != nullptr) {
    Result<Descriptor> copy = lifeline->socket().duplicate();
    if (copy) fds.push_back(std::move(copy).value());
  }
  holder_.hold(gateway::session_key(session.id),
               wire::encode(wire::held::Session{.session = session.id.value(),
                                                .token = session.token,
                                                .user = session.uid,
                                                .pid = session.pid,
                                                .program = session.name}),
               std::move(fds));
}

void Gateway::watch_lifeline(SessionPlace place, bool added) {
  const Channel& lifeline = place->second.lifeline();
  const uint32_t events = EPOLLIN | (lifeline.wants_write() ? EPOLLOUT : 0u);
  watch(lifeline.descriptor(), gateway::kLifeline | place->first.value(), events, added);
}

void Gateway::read_lifeline(SessionId id) {
  const SessionPlace place = sessions_.find(id);
  if (place == sessions_.end() || !place->second.open()) return;
  Channel& lifeline = place->second.lifeline();
  if (lifeline.wants_write()) {
    (void)lifeline.flush();  // a hang-up is told by reading
    watch_lifeline(place, false);
  }
  for (int i = 0; i < gateway::kFramesAtOnce; ++i) {
    Result<std::optional<Frame>> frame = lifeline.receive();
    if (!frame) {
      const bool hung_up = frame.error().code == ErrorCode::unavailable;
      if (!hung_up) {
        ++counters_.malformed;
        log_warning("session " + std::to_string(id.value()) +
                    " is hung up on: " + frame.error().message);
      }
      return end_session(place, true);
    }
    if (!frame.value()) return;
    if (!on_lifeline_frame(place, std::move(*frame.value()))) return;
    // A request that was delivered may have ended the session.
    if (sessions_.find(id) == sessions_.end()) return;
  }
}

bool Gateway::on_lifeline_frame(SessionPlace place, Frame frame) {
  ClientSession& session = place->second;
  const SessionId id = place->first;
  const Result<wire::AnyLifeline> decoded = wire::decode<wire::AnyLifeline>(frame.bytes);
  const wire::DescriptorMessage* const message =
      decoded.ok() ? std::get_if<wire::DescriptorMessage>(&decoded.value()) : nullptr;
  if (message == nullptr) {
    const bool hello = decoded.ok() && std::holds_alternative<wire::LifelineHello>(decoded.value());
    if (hello) {
      // Said again, because a broker died before it answered, or was slow.
      ++counters_.repeated;
      (void)session.lifeline().send(
          wire::encode(wire::LifelineReady{}, {.token = session.who().token}));
      return true;
    }
    ++counters_.malformed;
    const Error error =
        decoded.ok() ? Error{ErrorCode::invalid_argument,
                             "clients send descriptor messages over the lifeline, nothing else"}
                     : decoded.error();
    (void)session.lifeline().send(wire::encode(wire::Failure{error.code, error.message}, {}));
    end_session(place, true);
    return false;
  }
  if (!session.wants_descriptor_message(message->request)) {
    ++counters_.repeated;
    return true;
  }
  holder_.hold(gateway::message_key(id, message->request), {}, copies_of(frame.fds));
  fault_point("broker.descriptor_message_held");
  session.add_descriptor_message(message->request, std::move(frame.fds));
  if (session.waiting() && session.waiting()->number == message->request) {
    wire::AnyRequest waited = std::move(session.waiting()->message);
    session.waiting().reset();
    deliver(place, message->request, std::move(waited));
  }
  return true;
}

void Gateway::restore(const std::string& key, const std::vector<std::byte>& note,
                      std::vector<Descriptor> fds) {
  if (key == gateway::kIdsKey) {
    const Result<wire::held::SessionIds> ids = wire::decode_message<wire::held::SessionIds>(note);
    if (ids) held_ids_ = last_session_ = std::max(last_session_, ids.value().last);
    return;
  }
  if (key.starts_with("s/")) {
    const Result<wire::held::Session> held = wire::decode_message<wire::held::Session>(note);
    if (held && key == gateway::session_key(SessionId(held.value().session))) {
      const SessionId id(held.value().session);
      last_session_ = std::max(last_session_, id.value());
      Session who{.id = id,
                  .token = held.value().token,
                  .uid = held.value().user,
                  .pid = held.value().pid,
                  .name = held.value().program};
      by_token_[who.token] = id;
      const auto made =
          sessions_.try_emplace(id, std::move(who), clock_.now() + limits::kLifelinePatience);
      if (!fds.empty()) {
        made.first->second.open_with(Channel(std::move(fds.front()), kLifelineLimits));
        watch_lifeline(made.first, true);
      }
      return;
    }
  }
  // "p/SESSION/REQUEST"
  const size_t slash = key.find('/', 2);
  if (key.starts_with("p/") && slash != std::string::npos) {
    const SessionId id(std::strtoull(key.c_str() + 2, nullptr, 10));
    const uint64_t number = std::strtoull(key.c_str() + slash + 1, nullptr, 10);
    const SessionPlace place = sessions_.find(id);
    if (place != sessions_.end() && place->second.wants_descriptor_message(number)) {
      return place->second.add_descriptor_message(number, std::move(fds));
    }
  }
  log_error("what is held under '" + key + "' makes no sense and is released");
  holder_.release(key);
}

}  // namespace laneway::service

// Gateway, the messages over ZeroMQ: who sent them, whether they came before, and Hello and Bye.
#include <sys/random.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "service/broker/gateway.h"
#include "service/broker/gateway_parts.h"
#include "service/wire/codec.h"
#include "service/wire/held_session.h"

namespace laneway::service {
namespace {

Result<wire::Token> new_token() {
  wire::Token token{};
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return Error{ErrorCode::failed, "the system gives no random numbers"};
  }
  return token;
}

// How many descriptors come with a request.
size_t descriptors_of(const wire::AnyRequest& message) {
  if (const auto* create = std::get_if<wire::CreateJob>(&message)) {
    return create->spec.has_initial ? 2 : 1;
  }
  const bool one = std::holds_alternative<wire::AddGraph>(message) ||
                   std::holds_alternative<wire::AddSegment>(message);
  return one ? 1 : 0;
}

}  // namespace

void Gateway::read_messages() {
  for (int i = 0; i < gateway::kMessagesAtOnce; ++i) {
    const std::optional<ZmqServer::Message> message = server_.receive();
    if (!message) return;
    on_message(*message);
  }
}

void Gateway::on_message(const ZmqServer::Message& message) {
  const Result<wire::MessageHeader> header = wire::decode_header(message.bytes);
  if (!header) {
    ++counters_.malformed;
    // Another protocol's client can at least read ours from the answer's header.
    const bool speaks = header.error().code == ErrorCode::unsupported;
    if (speaks)
      answer(message.route, {}, wire::Failure{header.error().code, header.error().message});
    return;
  }
  const wire::Envelope& envelope = header.value().envelope;
  const bool hello = header.value().type == wire::Hello::kType.number;
  if (hello && envelope.token == wire::Token{}) return on_hello(message, envelope);
  const auto known = by_token_.find(envelope.token);
  const SessionPlace place =
      known == by_token_.end() ? sessions_.end() : sessions_.find(known->second);
  if (place == sessions_.end()) {
    return refuse(message.route, envelope,
                  {ErrorCode::unavailable,
                   "the service does not know this session (any more): connect again"});
  }
  const Session& who = place->second.who();
  if (message.peer.uid != who.uid || message.peer.pid != who.pid) {
    return refuse(message.route, envelope,
                  {ErrorCode::refused, "this session belongs to another process"});
  }
  // Decoded only now: what it may reserve is a known client's.
  Result<wire::AnyRequest> request = wire::decode<wire::AnyRequest>(message.bytes);
  if (!request) {
    ++counters_.malformed;
    return answer(message.route, envelope,
                  wire::Failure{request.error().code, request.error().message});
  }
  if (std::holds_alternative<wire::Bye>(request.value())) {
    return on_bye(place, message.route, envelope);
  }
  if (!place->second.open()) {
    return refuse(message.route, envelope,
                  {ErrorCode::refused, "the session's lifeline is not open yet"});
  }
  on_session_request(place, message.route, envelope.request, std::move(request).value());
}

void Gateway::on_hello(const ZmqServer::Message& message, const wire::Envelope& envelope) {
  const Result<wire::Hello> hello = wire::decode_message<wire::Hello>(message.bytes);
  if (!hello) {
    ++counters_.malformed;
    return answer(message.route, envelope,
                  wire::Failure{hello.error().code, hello.error().message});
  }
  for (const auto& [id, session] : sessions_) {
    // A route says little of who it is: its name may be another connection's by now.
    const Session& who = session.who();
    if (session.is_hello(message.route, envelope.request) && who.uid == message.peer.uid &&
        who.pid == message.peer.pid) {
      ++counters_.repeated;
      return welcome(session, message.route, envelope.request);
    }
  }
  if (Status may = may_open_session(message.peer); !may) {
    return refuse(message.route, envelope, may.error());
  }
  const Result<wire::Token> token = new_token();
  if (!token) return refuse(message.route, envelope, token.error());
  if (last_session_ >= held_ids_) {
    // In steps, so that a successor never gives a number again and most Hellos need not say so.
    held_ids_ = last_session_ + 64;
    holder_.hold(gateway::kIdsKey, wire::encode(wire::held::SessionIds{held_ids_}), {});
  }
  const SessionId id(++last_session_);
  Session who{.id = id,
              .token = token.value(),
              .uid = message.peer.uid,
              .pid = message.peer.pid,
              .name = hello.value().program};
  const auto made =
      sessions_.try_emplace(id, std::move(who), clock_.now() + limits::kLifelinePatience);
  ClientSession& session = made.first->second;
  session.set_hello(message.route, envelope.request);
  by_token_[token.value()] = id;
  hold_session(session.who(), nullptr);
  fault_point("broker.hello");
  welcome(session, message.route, envelope.request);
}

Status Gateway::may_open_session(const PeerCredentials& peer) const {
  if (sessions_.size() >= limits::kMaxSessions) {
    return Error{ErrorCode::refused, "the service has " + std::to_string(sessions_.size()) +
                                         " sessions, its limit: close one"};
  }
  const auto of_user = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& one) {
    return one.second.who().uid == peer.uid;
  });
  if (of_user >= limits::kMaxSessionsPerUser) {
    return Error{ErrorCode::refused, "user " + std::to_string(peer.uid) + " has " +
                                         std::to_string(of_user) +
                                         " sessions, the limit for one user: close one"};
  }
  return {};
}

void Gateway::welcome(const ClientSession& session, const std::string& route, uint64_t number) {
  wire::Welcome message;
  message.session = session.who().id.value();
  message.token = session.who().token;
  message.server_version = facts_.server_version;
  message.device = facts_.device;
  message.pool_bytes = facts_.pool_bytes;
  message.max_in_flight = facts_.max_in_flight;
  message.kernels = facts_.kernels;
  answer(route, {.request = number, .token = session.who().token}, message);
}

void Gateway::on_bye(SessionPlace place, const std::string& route, const wire::Envelope& envelope) {
  answer(route, envelope, wire::Done{});
  end_session(place, false);
}

void Gateway::on_session_request(SessionPlace place, const std::string& route, uint64_t number,
                                 wire::AnyRequest message) {
  ClientSession& session = place->second;
  const wire::Envelope envelope{.request = number, .token = session.who().token};
  if (std::holds_alternative<wire::Hello>(message)) {
    return refuse(route, envelope, {ErrorCode::invalid_argument, "this session said Hello before"});
  }
  std::vector<uint64_t> released;
  const ClientSession::Arrival arrival = session.arrive(number, route, released);
  for (const uint64_t one : released) holder_.release(gateway::message_key(place->first, one));
  switch (arrival) {
    case ClientSession::Arrival::fresh: break;
    case ClientSession::Arrival::answered:
      server_.send(route, session.kept_answer());
      [[fallthrough]];
    case ClientSession::Arrival::repeated:
    case ClientSession::Arrival::stale: ++counters_.repeated; return;
    case ClientSession::Arrival::too_many:
      return refuse(route, envelope,
                    {ErrorCode::refused, std::to_string(limits::kMaxRequestsInWork) +
                                             " requests of this session are being worked on, the "
                                             "limit: wait for one"});
  }
  if (session.waiting()) session.finish(session.waiting()->number);  // given up by its client
  if (descriptors_of(message) > 0 && !session.has_descriptor_message(number)) {
    session.waiting() = {.number = number,
                         .message = std::move(message),
                         .until = clock_.now() + limits::kDescriptorMessagePatience};
    return;
  }
  deliver(place, number, std::move(message));
}

void Gateway::deliver(SessionPlace place, uint64_t number, wire::AnyRequest message) {
  std::vector<Descriptor> fds = place->second.take_descriptor_message(number);
  const size_t wanted = descriptors_of(message);
  if (fds.size() != wanted) {
    ++counters_.refused;
    return reply(place->first, number,
                 wire::Failure{ErrorCode::invalid_argument,
                               "the request brings " + std::to_string(wanted) +
                                   " descriptors and came with " + std::to_string(fds.size())});
  }
  sink_.on_request({.session = place->first,
                    .number = number,
                    .message = std::move(message),
                    .fds = std::move(fds)});
}

void Gateway::answer(const std::string& route, const wire::Envelope& envelope,
                     const wire::AnyReply& message) {
  server_.send(route, wire::encode(message, envelope));
}

void Gateway::refuse(const std::string& route, const wire::Envelope& envelope, Error error) {
  ++counters_.refused;
  answer(route, envelope, wire::Failure{error.code, std::move(error.message)});
}

}  // namespace laneway::service

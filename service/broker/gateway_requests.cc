// Gateway, the messages over ZeroMQ: who sent them, whether they came before, and Hello and Bye.
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/fault_point.h"
#include "service/broker/gateway.h"
#include "service/broker/limits.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

// What one call of handle_ready takes, so that lifelines are not starved.
constexpr int kMessagesAtOnce = 64;

// How many descriptors come with a request.
size_t descriptors_of(const wire::AnyRequest& message) {
  if (const auto* create = std::get_if<wire::CreateJob>(&message)) {
    return create->spec.descriptors();
  }
  const bool one = std::holds_alternative<wire::AddGraph>(message) ||
                   std::holds_alternative<wire::AddSegment>(message);
  return one ? 1 : 0;
}

}  // namespace

void Gateway::read_messages() {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const std::optional<ZmqServer::Message> message = server_.receive();
    if (!message) return;
    on_message(*message);
  }
}

void Gateway::on_message(const ZmqServer::Message& message) {
  const Result<wire::MessageHeader> header = wire::decode_header(message.bytes);
  if (!header) {
    // Another protocol's client can at least read ours from the answer's header.
    if (header.error().code == ErrorCode::unsupported) {
      return refuse_malformed(message.route, {}, header.error());
    }
    ++counters_.malformed;
    return;
  }
  const wire::Envelope& envelope = header.value().envelope;
  const bool hello = header.value().type == wire::Hello::kType.number;
  if (hello && envelope.token == wire::Token{}) return on_hello(message, envelope);
  ClientSession* const session = sessions_.find(envelope.token);
  if (session == nullptr) {
    return refuse(message.route, envelope,
                  {ErrorCode::unavailable,
                   "the service does not know this session (any more): connect again"});
  }
  if (!session->who().is_of(message.peer)) {
    return refuse(message.route, envelope,
                  {ErrorCode::refused, "this session belongs to another process"});
  }
  // Decoded only now: what it may reserve is a known client's.
  Result<wire::AnyRequest> request = wire::decode<wire::AnyRequest>(message.bytes);
  if (!request) return refuse_malformed(message.route, envelope, request.error());
  if (std::holds_alternative<wire::Bye>(request.value())) {
    return on_bye(*session, message.route, envelope);
  }
  if (!session->open()) {
    return refuse(message.route, envelope,
                  {ErrorCode::refused, "the session's lifeline is not open yet"});
  }
  on_session_request(*session, message.route, envelope.request, std::move(request).value());
}

void Gateway::on_hello(const ZmqServer::Message& message, const wire::Envelope& envelope) {
  const Result<wire::Hello> hello = wire::decode_message<wire::Hello>(message.bytes);
  if (!hello) return refuse_malformed(message.route, envelope, hello.error());
  const PeerCredentials& peer = message.peer;
  if (const auto* known = sessions_.find_hello(peer, message.route, envelope.request)) {
    ++counters_.repeated;
    return welcome(*known, message.route, envelope.request);
  }
  const Result<ClientSession*> opened = sessions_.open(peer, hello.value().program);
  if (!opened) return refuse(message.route, envelope, opened.error());
  ClientSession& session = *opened.value();
  session.set_hello(message.route, envelope.request);
  fault_point("broker.hello");
  welcome(session, message.route, envelope.request);
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

void Gateway::on_bye(ClientSession& session, const std::string& route,
                     const wire::Envelope& envelope) {
  answer(route, envelope, wire::Done{});
  end_session(session, false);
}

void Gateway::on_session_request(ClientSession& session, const std::string& route, uint64_t number,
                                 wire::AnyRequest message) {
  const wire::Envelope envelope{.request = number, .token = session.who().token};
  if (std::holds_alternative<wire::Hello>(message)) {
    return refuse(route, envelope, {ErrorCode::invalid_argument, "this session said Hello before"});
  }
  std::vector<uint64_t> released;
  const ClientSession::Arrival arrival = session.arrive(number, route, released);
  sessions_.release_descriptor_messages(session.who().id, released);
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
  deliver(session, number, std::move(message));
}

void Gateway::deliver(ClientSession& session, uint64_t number, wire::AnyRequest message) {
  if (const auto why = session.descriptor_refusal(number)) {
    ++counters_.refused;
    return reply(session.who().id, number, wire::Failure{why->code, why->message});
  }
  std::vector<Descriptor> fds = session.take_descriptor_message(number);
  const size_t wanted = descriptors_of(message);
  if (fds.size() != wanted) {
    ++counters_.refused;
    return reply(session.who().id, number,
                 wire::Failure{ErrorCode::invalid_argument,
                               "the request brings " + std::to_string(wanted) +
                                   " descriptors and came with " + std::to_string(fds.size())});
  }
  sink_.on_request({.session = session.who().id,
                    .number = number,
                    .message = std::move(message),
                    .fds = std::move(fds)});
}

void Gateway::answer(const std::string& route, const wire::Envelope& envelope,
                     const wire::AnyReply& message) {
  server_.send(route, wire::encode(message, envelope));
}

void Gateway::refuse_malformed(const std::string& route, const wire::Envelope& envelope,
                               Error error) {
  ++counters_.malformed;
  if (error.code == ErrorCode::unsupported) {
    error.message += "; the service is Laneway " + facts_.server_version;
  }
  answer(route, envelope, wire::Failure{error.code, std::move(error.message)});
}

void Gateway::refuse(const std::string& route, const wire::Envelope& envelope, Error error) {
  ++counters_.refused;
  answer(route, envelope, wire::Failure{error.code, std::move(error.message)});
}

}  // namespace laneway::service

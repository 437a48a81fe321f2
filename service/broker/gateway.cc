#include "service/broker/gateway.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "service/broker/gateway_parts.h"
#include "service/transport/address.h"
#include "service/wire/codec.h"
#include "service/wire/held_session.h"

namespace laneway::service {

const Clock& Gateway::steady_clock() {
  static const SteadyClock clock;
  return clock;
}

Gateway::Gateway(ZmqServer server, Descriptor lifelines, Descriptor watch, DescriptorStore& holder,
                 RequestSink& sink, Facts facts, const Clock& clock)
    : server_(std::move(server)),
      lifelines_(std::move(lifelines)),
      watch_(std::move(watch)),
      holder_(holder),
      sink_(sink),
      facts_(std::move(facts)),
      clock_(clock) {}

Result<std::unique_ptr<Gateway>> Gateway::open(Descriptor zmq_listener,
                                               const std::string& zmq_address,
                                               Descriptor lifeline_listener,
                                               DescriptorStore& holder, RequestSink& sink,
                                               Facts facts, const Clock& clock) {
  const Result<Address> address = Address::parse(zmq_address);
  if (!address) return address.error();
  Result<ZmqServer> server = ZmqServer::open(std::move(zmq_listener), address.value());
  if (!server) return server.error();
  Descriptor watch(epoll_create1(EPOLL_CLOEXEC));
  if (!watch.valid()) {
    return Error{ErrorCode::failed, std::string("no epoll: ") + std::strerror(errno)};
  }
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(server).value(),
                                               std::move(lifeline_listener), std::move(watch),
                                               holder, sink, std::move(facts), clock));
  gateway->watch(gateway->lifelines_.get(), gateway::kListener, EPOLLIN, true);
  return gateway;
}

void Gateway::add_to_poll(std::vector<pollfd>& entries) const {
  entries.push_back({server_.descriptor(), POLLIN, 0});
  entries.push_back({watch_.get(), POLLIN, 0});
}

TimePoint Gateway::next_wakeup() const {
  // ZeroMQ's descriptor tells of changes only: what is there already is not announced again.
  if (server_.readable()) return clock_.now();
  TimePoint next = TimePoint::never();
  for (const auto& [id, pending] : pending_connections_) next = std::min(next, pending.until);
  for (const auto& [id, session] : sessions_) {
    next = std::min(next, session.until());
    if (session.waiting()) next = std::min(next, session.waiting()->until);
  }
  return next;
}

void Gateway::handle_ready() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(watch_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events.at(static_cast<size_t>(i)).data.u64;
    const uint64_t kind = what & ~gateway::kNumberMask, number = what & gateway::kNumberMask;
    if (kind == gateway::kListener) accept_connections();
    if (kind == gateway::kPendingConnection) read_pending(number);
    if (kind == gateway::kLifeline) read_lifeline(SessionId(number));
  }
  read_messages();
  end_overdue();
}

void Gateway::reply(SessionId session, uint64_t number, const wire::AnyReply& message,
                    std::vector<Descriptor> fds) {
  const SessionPlace place = sessions_.find(session);
  if (place == sessions_.end()) return;
  ClientSession& client = place->second;
  const std::optional<std::string> route = client.finish(number);
  if (!route) return;
  const wire::Envelope envelope{.request = number, .token = client.who().token};
  std::vector<std::byte> bytes = wire::encode(message, envelope);
  const uint32_t most = std::visit(
      [](const auto& one) { return std::decay_t<decltype(one)>::kType.max_bytes; }, message);
  if (bytes.size() > most) {
    bytes = wire::encode(
        wire::Failure{ErrorCode::refused, "the answer has " + std::to_string(bytes.size()) +
                                              " bytes; the limit is " + std::to_string(most)},
        envelope);
    fds.clear();
  }
  if (client.drop_descriptor_message(number))
    holder_.release(gateway::message_key(session, number));
  if (fds.empty()) {
    server_.send(*route, bytes);
    client.keep_answer(number, std::move(bytes));
    return;
  }
  const Status sent = client.lifeline().send(
      wire::encode(wire::DescriptorMessage{number}, envelope), std::move(fds));
  if (!sent) {
    // Hung up, or its queue is full because it does not read. The end is seen at the next look: the
    // sink is in the middle of something that may be about this session.
    log_warning("session " + std::to_string(session.value()) +
                " gets no descriptors: " + sent.error().message);
    ::shutdown(client.lifeline().descriptor(), SHUT_RDWR);
    return;
  }
  watch_lifeline(place, false);
  server_.send(*route, bytes);
}

std::vector<Session> Gateway::sessions() const {
  std::vector<Session> open;
  for (const auto& [id, session] : sessions_) {
    if (session.open()) open.push_back(session.who());
  }
  return open;
}

Gateway::Counters Gateway::counters() const {
  Counters counters = counters_;
  counters.malformed += server_.malformed();
  return counters;
}

void Gateway::end_session(SessionPlace place, bool died) {
  ClientSession& session = place->second;
  const SessionId id = session.who().id;
  const bool open = session.open();
  if (open) unwatch(session.lifeline().descriptor());
  for (const uint64_t number : session.messages())
    holder_.release(gateway::message_key(id, number));
  holder_.release(gateway::session_key(id));
  by_token_.erase(session.who().token);
  sessions_.erase(place);
  // The sink knows open ones alone. Last: it may ask for anything, but the session is no more.
  if (open) sink_.on_session_end(id, died);
}

void Gateway::end_overdue() {
  const TimePoint now = clock_.now();
  for (auto at = pending_connections_.begin(); at != pending_connections_.end();) {
    if (at->second.until > now) {
      ++at;
      continue;
    }
    unwatch(at->second.channel.descriptor());
    at = pending_connections_.erase(at);
    ++counters_.refused;
  }
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    const SessionPlace place = at++;
    if (place->second.until() <= now) {
      ++counters_.refused;
      end_session(place, true);
      continue;
    }
    const auto& waiting = place->second.waiting();
    if (waiting && waiting->until <= now) {
      ++counters_.refused;
      reply(place->first, waiting->number,
            wire::Failure{ErrorCode::invalid_argument,
                          "the request's descriptors did not come over the lifeline"});
    }
  }
}

void Gateway::watch(int descriptor, uint64_t what, uint32_t events, bool added) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  if (epoll_ctl(watch_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) != 0) {
    // Out of the user's watches or of memory; the connection is then ended by its time.
    log_error(std::string("a connection is not watched: ") + std::strerror(errno));
  }
}

void Gateway::unwatch(int descriptor) {
  // Before it is closed: the supervisor holds the same socket, so closing ends no watch.
  epoll_ctl(watch_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

}  // namespace laneway::service

#include "service/broker/gateway.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "service/transport/address.h"
#include "service/wire/codec.h"

namespace laneway::service {

const Clock& Gateway::steady_clock() {
  static const SteadyClock clock;
  return clock;
}

Gateway::Gateway(ZmqServer server, Descriptor lifelines, Descriptor watch, DescriptorStore& store,
                 Quotas& quotas, RequestSink& sink, Facts facts, const Clock& clock)
    : server_(std::move(server)),
      sink_(sink),
      facts_(std::move(facts)),
      clock_(clock),
      sessions_(store, quotas, clock),
      lifelines_(std::move(lifelines), std::move(watch), sessions_, *this, clock) {}

Result<std::unique_ptr<Gateway>> Gateway::open(Descriptor zmq_listener,
                                               const std::string& zmq_address,
                                               Descriptor lifeline_listener, DescriptorStore& store,
                                               Quotas& quotas, RequestSink& sink, Facts facts,
                                               const Clock& clock) {
  const Result<Address> address = Address::parse(zmq_address);
  if (!address) return address.error();
  Result<ZmqServer> server = ZmqServer::open(std::move(zmq_listener), address.value());
  if (!server) return server.error();
  Descriptor watch(epoll_create1(EPOLL_CLOEXEC));
  if (!watch.valid()) {
    return Error{ErrorCode::failed, std::string("no epoll: ") + std::strerror(errno)};
  }
  return std::unique_ptr<Gateway>(new Gateway(std::move(server).value(),
                                              std::move(lifeline_listener), std::move(watch), store,
                                              quotas, sink, std::move(facts), clock));
}

void Gateway::restore(const std::string& key, const std::vector<std::byte>& note,
                      std::vector<Descriptor> fds) {
  ClientSession* const opened = sessions_.restore(key, note, std::move(fds));
  if (opened != nullptr) lifelines_.add(*opened);
}

void Gateway::hold_refused(const std::string& key, const Error& why) {
  ClientSession* const session = sessions_.find_held(key);
  if (session == nullptr) return;
  if (session->open()) {
    (void)session->lifeline().send(
        wire::encode(wire::Failure{why.code, "this client cannot be kept: " + why.message}, {}));
  }
  end_session(*session, true);
}

void Gateway::add_to_poll(std::vector<pollfd>& entries) const {
  entries.push_back({server_.descriptor(), POLLIN, 0});
  entries.push_back(lifelines_.poll_entry());
}

TimePoint Gateway::next_wakeup() const {
  // ZeroMQ's descriptor becomes ready at changes only: a message that is there already makes none.
  if (server_.readable()) return clock_.now();
  return std::min(lifelines_.next_due(), sessions_.next_due());
}

void Gateway::handle_ready() {
  lifelines_.handle_ready();
  read_messages();
  end_due();
}

void Gateway::reply(SessionId session, uint64_t number, const wire::AnyReply& message,
                    std::vector<Descriptor> fds) {
  ClientSession* const client = sessions_.find(session);
  if (client == nullptr) return;
  const std::optional<std::string> route = client->finish(number);
  if (!route) return;
  const wire::Envelope envelope{.request = number, .token = client->who().token};
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
  sessions_.drop_descriptor_message(*client, number);
  if (fds.empty()) {
    server_.send(*route, bytes);
    client->keep_answer(number, std::move(bytes));
  } else if (lifelines_.send(*client, envelope, std::move(fds))) {
    server_.send(*route, bytes);
  }
}

std::vector<Session> Gateway::sessions() const {
  std::vector<Session> open;
  for (const auto& [id, session] : sessions_.all()) {
    if (session.open()) open.push_back(session.who());
  }
  return open;
}

IntakeCounters Gateway::counters() const {
  IntakeCounters counters = lifelines_.intake();
  counters.malformed += counters_.malformed + server_.malformed();
  counters.refused += counters_.refused;
  counters.repeated += counters_.repeated;
  return counters;
}

void Gateway::on_lifeline(ClientSession& session) { sink_.on_session(session.who()); }

void Gateway::on_descriptor_message(ClientSession& session, uint64_t number) {
  if (!session.waiting() || session.waiting()->number != number) return;
  wire::AnyRequest waited = std::move(session.waiting()->message);
  session.waiting().reset();
  deliver(session, number, std::move(waited));
}

void Gateway::on_lifeline_end(ClientSession& session) { end_session(session, true); }

void Gateway::end_session(ClientSession& session, bool died) {
  const SessionId id = session.who().id;
  const bool open = session.open();
  if (open) lifelines_.remove(session);
  sessions_.erase(id);
  // The sink knows open ones alone. Last: it may ask for anything, but the session is no more.
  if (open) sink_.on_session_end(id, died);
}

void Gateway::end_due() {
  lifelines_.drop_due();
  const TimePoint now = clock_.now();
  for (const SessionId id : sessions_.due()) {
    ClientSession* const session = sessions_.find(id);
    if (session == nullptr) continue;  // it has ended with one before it
    ++counters_.refused;
    if (session->until() <= now) {
      end_session(*session, true);
    } else {
      reply(id, session->waiting()->number,
            wire::Failure{ErrorCode::invalid_argument,
                          "the request's descriptors did not come over the lifeline"});
    }
  }
}

}  // namespace laneway::service

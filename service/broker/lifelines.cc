#include "service/broker/lifelines.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/fault_point.h"
#include "base/log.h"
#include "service/broker/limits.h"
#include "service/transport/unix_socket.h"
#include "service/wire/client_replies.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

// What an event of the epoll is about: the kind in the top bits, the number below.
constexpr uint64_t kKindShift = 62;
constexpr uint64_t kListener = 1ull << kKindShift;
constexpr uint64_t kPendingConnection = 2ull << kKindShift;
constexpr uint64_t kLifeline = 3ull << kKindShift;
constexpr uint64_t kNumberMask = (1ull << kKindShift) - 1;

// What one call of handle_ready takes from one connection, so that none starves the others.
constexpr int kFramesAtOnce = 16;

std::vector<std::byte> failure(const Error& error) {
  return wire::encode(wire::Failure{error.code, error.message}, {});
}

}  // namespace

Lifelines::Lifelines(Descriptor listener, Descriptor epoll, SessionTable& sessions,
                     LifelineEvents& events, const Clock& clock)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      sessions_(sessions),
      events_(events),
      clock_(clock) {
  watch(listener_.get(), kListener, EPOLLIN, true);
}

TimePoint Lifelines::next_due() const {
  TimePoint next = TimePoint::never();
  for (const auto& [id, pending] : pending_connections_) next = std::min(next, pending.until);
  return next;
}

void Lifelines::handle_ready() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events.at(static_cast<size_t>(i)).data.u64;
    const uint64_t kind = what & ~kNumberMask, number = what & kNumberMask;
    if (kind == kListener) accept_connections();
    if (kind == kPendingConnection) read_pending(number);
    if (kind == kLifeline) read_lifeline(SessionId(number));
  }
}

void Lifelines::drop_due() {
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
}

void Lifelines::accept_connections() {
  for (int i = 0; i < kFramesAtOnce; ++i) {
    Result<std::optional<Descriptor>> accepted = accept_unix(listener_);
    if (!accepted) return log_error(accepted.error().message);
    if (!accepted.value()) return;
    Channel channel(std::move(*accepted.value()), kServedLifelineLimits);
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
    watch(channel.descriptor(), kPendingConnection | id, EPOLLIN, true);
    pending_connections_[id] = {.channel = std::move(channel),
                                .peer = *peer,
                                .until = clock_.now() + limits::kLifelinePatience};
  }
}

void Lifelines::read_pending(uint64_t id) {
  const auto place = pending_connections_.find(id);
  if (place == pending_connections_.end()) return;
  PendingConnection& pending = place->second;
  Result<std::optional<Frame>> frame = pending.channel.receive();
  if (frame.ok() && !frame.value()) return;
  if (frame.ok()) {
    const Status opened = on_hello(pending, *frame.value());
    if (!opened) (void)pending.channel.send(failure(opened.error()));
  } else if (frame.error().code == ErrorCode::invalid_argument) {
    // To hang up without a word is no fault: a client may look whether the service is there.
    ++counters_.malformed;
  }
  // The channel of one that is a session's now has moved there.
  if (pending.channel.valid()) unwatch(pending.channel.descriptor());
  pending_connections_.erase(place);
}

Status Lifelines::on_hello(PendingConnection& pending, const Frame& frame) {
  const Result<wire::LifelineHello> hello = wire::decode_message<wire::LifelineHello>(frame.bytes);
  if (!hello || !frame.fds.empty()) {
    ++counters_.malformed;
    return hello ? Error{ErrorCode::invalid_argument, "LifelineHello brings no descriptors"}
                 : hello.error();
  }
  ClientSession* const session = sessions_.find(SessionId(hello.value().session));
  if (session == nullptr || session->who().token != hello.value().token) {
    ++counters_.refused;
    return Error{ErrorCode::refused,
                 "the service has no session of this number and token: connect again"};
  }
  if (!session->who().is_of(pending.peer)) {
    ++counters_.refused;
    return Error{ErrorCode::refused, "this session belongs to another process"};
  }
  if (session->open()) {
    ++counters_.refused;
    return Error{ErrorCode::refused, "this session has its lifeline already"};
  }
  const int watched = pending.channel.descriptor();
  if (Status set = sessions_.set_lifeline(*session, pending.channel); !set) {
    ++counters_.refused;
    return set;
  }
  unwatch(watched);
  fault_point("broker.lifeline");
  (void)session->lifeline().send(
      wire::encode(wire::LifelineReady{}, {.token = session->who().token}));
  watch_lifeline(*session, true);
  events_.on_lifeline(*session);
  return {};
}

void Lifelines::read_lifeline(SessionId id) {
  ClientSession* session = sessions_.find(id);
  if (session == nullptr || !session->open()) return;
  if (session->lifeline().wants_write()) {
    (void)session->lifeline().flush();  // a hang-up shows when the lifeline is read
    watch_lifeline(*session, false);
  }
  for (int i = 0; i < kFramesAtOnce; ++i) {
    Result<std::optional<Frame>> frame = session->lifeline().receive();
    if (!frame) {
      const bool hung_up = frame.error().code == ErrorCode::unavailable;
      if (!hung_up) {
        ++counters_.malformed;
        log_warning("session " + std::to_string(id.value()) +
                    " is hung up on: " + frame.error().message);
      }
      return events_.on_lifeline_end(*session);
    }
    if (!frame.value()) return;
    on_frame(*session, std::move(*frame.value()));
    // The frame, or the request that it completed, may have ended the session.
    session = sessions_.find(id);
    if (session == nullptr) return;
  }
}

void Lifelines::on_frame(ClientSession& session, Frame frame) {
  const Result<wire::AnyLifeline> decoded = wire::decode<wire::AnyLifeline>(frame.bytes);
  if (decoded.ok() && std::holds_alternative<wire::LifelineHello>(decoded.value())) {
    // Sent again, because a broker died before it answered, or was slow.
    ++counters_.repeated;
    (void)session.lifeline().send(
        wire::encode(wire::LifelineReady{}, {.token = session.who().token}));
    return;
  }
  const auto* const message =
      decoded.ok() ? std::get_if<wire::DescriptorMessage>(&decoded.value()) : nullptr;
  if (message == nullptr) {
    ++counters_.malformed;
    const Error error =
        decoded.ok() ? Error{ErrorCode::invalid_argument,
                             "clients send descriptor messages over the lifeline, nothing else"}
                     : decoded.error();
    (void)session.lifeline().send(failure(error));
    return events_.on_lifeline_end(session);
  }
  if (!session.wants_descriptor_message(message->request)) {
    ++counters_.repeated;
    return;
  }
  sessions_.add_descriptor_message(session, message->request, std::move(frame));
  fault_point("broker.descriptor_message_held");
  events_.on_descriptor_message(session, message->request);
}

void Lifelines::add(ClientSession& session) { watch_lifeline(session, true); }

void Lifelines::remove(ClientSession& session) { unwatch(session.lifeline().descriptor()); }

bool Lifelines::send(ClientSession& session, const wire::Envelope& envelope,
                     std::vector<Descriptor> fds) {
  Status sent = sessions_.count_answer(session, fds.size());
  if (sent) {
    sent = session.lifeline().send(
        wire::encode(wire::DescriptorMessage{envelope.request}, envelope), std::move(fds));
  } else {
    ++counters_.refused;
    (void)session.lifeline().send(failure(sent.error()));
  }
  if (!sent) {
    // Hung up, or its queue is full because the client does not read. The end is seen at the next
    // look: the caller may be in the middle of something that is about this session.
    log_warning("session " + std::to_string(session.who().id.value()) +
                " gets no descriptors: " + sent.error().message);
    ::shutdown(session.lifeline().descriptor(), SHUT_RDWR);
    return false;
  }
  watch_lifeline(session, false);
  return true;
}

void Lifelines::watch_lifeline(ClientSession& session, bool added) {
  const Channel& lifeline = session.lifeline();
  const uint32_t events = EPOLLIN | (lifeline.wants_write() ? EPOLLOUT : 0u);
  watch(lifeline.descriptor(), kLifeline | session.who().id.value(), events, added);
}

void Lifelines::watch(int descriptor, uint64_t what, uint32_t events, bool added) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  if (epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) != 0) {
    // Out of the user's watches or of memory; the connection is then ended by its time.
    log_error(std::string("a connection is not watched: ") + std::strerror(errno));
  }
}

void Lifelines::unwatch(int descriptor) {
  // Before it is closed: the supervisor holds the same socket, so closing ends no watch.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

}  // namespace laneway::service

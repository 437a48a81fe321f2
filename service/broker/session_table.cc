#include "service/broker/session_table.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/log.h"
#include "service/broker/limits.h"
#include "service/wire/codec.h"
#include "service/wire/held_session.h"

namespace laneway::service {
namespace {

// Ids are held in steps of so many: a successor must not give one again, and most Hellos need no
// message to the supervisor about it.
constexpr uint64_t kIdsAtOnce = 64;

constexpr const char* kIdsKey = "s/ids";
std::string session_key(SessionId session) { return "s/" + std::to_string(session.value()); }
std::string message_key(SessionId session, uint64_t request) {
  return "p/" + std::to_string(session.value()) + "/" + std::to_string(request);
}

Result<wire::Token> new_token() {
  wire::Token token{};
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return Error{ErrorCode::failed, "the system gives no random numbers"};
  }
  return token;
}

Result<std::vector<Descriptor>> copies_of(const std::vector<Descriptor>& fds) {
  std::vector<Descriptor> copies;
  for (const Descriptor& fd : fds) {
    Result<Descriptor> copy = fd.duplicate();
    if (!copy) return copy.error();
    copies.push_back(std::move(copy).value());
  }
  return copies;
}

}  // namespace

Result<ClientSession*> SessionTable::open(const PeerCredentials& peer, const std::string& program) {
  auto seat = quotas_.take(Resource::sessions, peer.uid, 1);
  if (!seat) return seat.error();
  auto files = quotas_.take(Resource::descriptors, peer.uid, limits::kDescriptorsOfSession);
  if (!files) return files.error();
  const Result<wire::Token> token = new_token();
  if (!token) return token.error();
  ClientSession& session = add(
      {.id = next_id(), .token = token.value(), .uid = peer.uid, .pid = peer.pid, .name = program});
  session.add_share(std::move(seat).value());
  session.add_share(std::move(files).value());
  hold(session, {});
  return &session;
}

SessionId SessionTable::next_id() {
  if (last_id_ >= held_ids_) {
    held_ids_ = last_id_ + kIdsAtOnce;
    store_.hold(kIdsKey, wire::encode(wire::held::SessionIds{held_ids_}), {});
  }
  return SessionId(++last_id_);
}

ClientSession& SessionTable::add(const Session& who) {
  by_token_[who.token] = who.id;
  return sessions_.try_emplace(who.id, who, clock_.now() + limits::kLifelinePatience).first->second;
}

ClientSession* SessionTable::find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

ClientSession* SessionTable::find(const wire::Token& token) {
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? nullptr : find(found->second);
}

ClientSession* SessionTable::find_held(const std::string& key) {
  if (!key.starts_with("s/")) return nullptr;
  ClientSession* const session = find(SessionId(std::strtoull(key.c_str() + 2, nullptr, 10)));
  return session != nullptr && session_key(session->who().id) == key ? session : nullptr;
}

ClientSession* SessionTable::find_hello(const PeerCredentials& peer, const std::string& route,
                                        uint64_t number) {
  for (auto& [id, session] : sessions_) {
    // The route alone does not identify the process: its name may be another connection's by now.
    if (session.is_hello(route, number) && session.who().is_of(peer)) return &session;
  }
  return nullptr;
}

void SessionTable::hold(const ClientSession& session, std::vector<Descriptor> lifeline) {
  const Session& who = session.who();
  store_.hold(session_key(who.id),
              wire::encode(wire::held::Session{.session = who.id.value(),
                                               .token = who.token,
                                               .user = who.uid,
                                               .pid = who.pid,
                                               .program = who.name}),
              std::move(lifeline));
}

Status SessionTable::set_lifeline(ClientSession& session, Channel& lifeline) {
  Result<Descriptor> copy = lifeline.socket().duplicate();
  if (!copy) return Error{ErrorCode::refused, "the session is not held: " + copy.error().message};
  session.open_with(std::move(lifeline));
  std::vector<Descriptor> held;
  held.push_back(std::move(copy).value());
  hold(session, std::move(held));
  return {};
}

void SessionTable::add_descriptor_message(ClientSession& session, uint64_t number, Frame frame) {
  const Status taken = take_descriptor_message(session, number, frame);
  if (!taken) session.refuse_descriptor_message(number, taken.error());
}

Status SessionTable::take_descriptor_message(ClientSession& session, uint64_t number,
                                             Frame& frame) {
  if (frame.is_cut) {
    return Error{ErrorCode::refused,
                 "the service may open no more files, and lost the request's: close jobs, or raise "
                 "its limit of open files"};
  }
  auto share = quotas_.take(Resource::descriptors, session.who().uid, frame.fds.size());
  if (!share) return share.error();
  auto held = copies_of(frame.fds);
  if (!held) return Error{ErrorCode::refused, held.error().message};
  store_.hold(message_key(session.who().id, number), {}, std::move(held).value());
  session.add_descriptor_message(number, std::move(frame.fds), std::move(share).value());
  return {};
}

Status SessionTable::count_answer(ClientSession& session, size_t descriptors) {
  if (session.lifeline().all_read()) session.all_read();
  Quotas::Share share;
  if (session.has_unread()) {
    auto taken = quotas_.take(Resource::descriptors, session.who().uid, descriptors);
    if (!taken) return taken.error();
    share = std::move(taken).value();
  }
  session.add_unread(std::move(share));
  return {};
}

void SessionTable::drop_descriptor_message(ClientSession& session, uint64_t number) {
  if (session.drop_descriptor_message(number)) {
    store_.release(message_key(session.who().id, number));
  }
}

void SessionTable::release_descriptor_messages(SessionId session,
                                               const std::vector<uint64_t>& numbers) {
  for (const uint64_t number : numbers) store_.release(message_key(session, number));
}

void SessionTable::erase(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  release_descriptor_messages(id, found->second.messages());
  store_.release(session_key(id));
  by_token_.erase(found->second.who().token);
  sessions_.erase(found);
}

ClientSession* SessionTable::restore(const std::string& key, const std::vector<std::byte>& note,
                                     std::vector<Descriptor> fds) {
  if (key == kIdsKey) {
    const Result<wire::held::SessionIds> ids = wire::decode_message<wire::held::SessionIds>(note);
    if (ids) held_ids_ = last_id_ = std::max(last_id_, ids.value().last);
    return nullptr;
  }
  if (ClientSession* const session = restore_session(key, note)) {
    if (fds.empty()) return nullptr;
    session->open_with(Channel(std::move(fds.front()), kServedLifelineLimits));
    return session;
  }
  if (restore_descriptor_message(key, fds)) return nullptr;
  log_error("what is held under '" + key + "' makes no sense and is released");
  store_.release(key);
  return nullptr;
}

ClientSession* SessionTable::restore_session(const std::string& key,
                                             const std::vector<std::byte>& note) {
  if (!key.starts_with("s/")) return nullptr;
  const Result<wire::held::Session> held = wire::decode_message<wire::held::Session>(note);
  if (!held) return nullptr;
  const SessionId id(held.value().session);
  if (key != session_key(id)) return nullptr;
  last_id_ = std::max(last_id_, id.value());
  ClientSession& session = add({.id = id,
                                .token = held.value().token,
                                .uid = held.value().user,
                                .pid = held.value().pid,
                                .name = held.value().program});
  session.add_share(quotas_.keep(Resource::sessions, held.value().user, 1));
  session.add_share(
      quotas_.keep(Resource::descriptors, held.value().user, limits::kDescriptorsOfSession));
  return &session;
}

bool SessionTable::restore_descriptor_message(const std::string& key,
                                              std::vector<Descriptor>& fds) {
  // "p/SESSION/REQUEST"
  const size_t slash = key.find('/', 2);
  if (!key.starts_with("p/") || slash == std::string::npos) return false;
  const uint64_t number = std::strtoull(key.c_str() + slash + 1, nullptr, 10);
  ClientSession* const session = find(SessionId(std::strtoull(key.c_str() + 2, nullptr, 10)));
  if (session == nullptr || !session->wants_descriptor_message(number)) return false;
  auto share = quotas_.keep(Resource::descriptors, session->who().uid, fds.size());
  session->add_descriptor_message(number, std::move(fds), std::move(share));
  return true;
}

TimePoint SessionTable::next_due() const {
  TimePoint next = TimePoint::never();
  for (const auto& [id, session] : sessions_) {
    next = std::min(next, session.until());
    if (session.waiting()) next = std::min(next, session.waiting()->until);
  }
  return next;
}

std::vector<SessionId> SessionTable::due() const {
  const TimePoint now = clock_.now();
  std::vector<SessionId> due;
  for (const auto& [id, session] : sessions_) {
    const auto& waiting = session.waiting();
    if (session.until() <= now || (waiting && waiting->until <= now)) due.push_back(id);
  }
  return due;
}

}  // namespace laneway::service

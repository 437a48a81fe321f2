// SessionTable: the sessions of clients by number and by token, and what the store holds of them,
// so that a successor of this process goes on with them: the client's process, its lifeline, and
// each descriptor message whose request is not answered yet. Sends nothing. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/client_session.h"
#include "service/broker/descriptor_store.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/wire/message.h"

namespace laneway::service {

class SessionTable {
 public:
  // All must outlive the table.
  SessionTable(DescriptorStore& store, Quotas& quotas, const Clock& clock)
      : store_(store), quotas_(quotas), clock_(clock) {}

  // Makes a session of this process, without a lifeline yet, under a number that no session had
  // before, and holds it. refused names the quota that is reached; failed when the system gives no
  // random numbers.
  Result<ClientSession*> open(const PeerCredentials& peer, const std::string& program);

  // Null when there is no such session. A session stays where it is until it is erased.
  ClientSession* find(SessionId id);
  ClientSession* find(const wire::Token& token);
  // The one that is held under this key.
  ClientSession* find_held(const std::string& key);
  // The session that this process opened with a Hello of this route and number.
  ClientSession* find_hello(const PeerCredentials& peer, const std::string& route, uint64_t number);

  // The session has its lifeline from now on, which is held. refused, and nothing is moved, when
  // the process has no descriptors left.
  Status set_lifeline(ClientSession& session, Channel& lifeline);
  // The descriptors are the session's until its request `number` takes them, and held until the
  // message is dropped. Where no quota is left for them, or the frame came without them, the
  // session knows why instead. Requires: session.wants_descriptor_message(number).
  void add_descriptor_message(ClientSession& session, uint64_t number, Frame frame);
  // Of an answer that goes over the lifeline next. refused when the client has left so many unread
  // that its user has no quota for these.
  Status count_answer(ClientSession& session, size_t descriptors);
  // Nothing happens when the session has no such message.
  void drop_descriptor_message(ClientSession& session, uint64_t number);
  // Descriptor messages that the session has dropped itself are held no longer.
  void release_descriptor_messages(SessionId session, const std::vector<uint64_t>& numbers);

  // Neither session nor anything held of it is left.
  void erase(SessionId id);

  // Takes back what a predecessor held under a key that begins with "s/" or "p/". Returns the
  // session that has got its lifeline by it, else null. What makes no sense is released.
  ClientSession* restore(const std::string& key, const std::vector<std::byte>& note,
                         std::vector<Descriptor> fds);

  // When the first session or request has waited too long, and the sessions for which it is so.
  TimePoint next_due() const;
  std::vector<SessionId> due() const;

  const std::map<SessionId, ClientSession>& all() const { return sessions_; }

 private:
  SessionId next_id();
  ClientSession& add(const Session& who);
  void hold(const ClientSession& session, std::vector<Descriptor> lifeline);
  Status take_descriptor_message(ClientSession& session, uint64_t number, Frame& frame);
  // Null: `note` is no session, or not the session of `key`.
  ClientSession* restore_session(const std::string& key, const std::vector<std::byte>& note);
  // False: `key` names no message that a session still wants.
  bool restore_descriptor_message(const std::string& key, std::vector<Descriptor>& fds);

  DescriptorStore& store_;
  Quotas& quotas_;
  const Clock& clock_;
  std::map<SessionId, ClientSession> sessions_;
  std::map<wire::Token, SessionId> by_token_;
  uint64_t last_id_ = 0;
  uint64_t held_ids_ = 0;  // ids up to this one are known to be given, should this process die
};

}  // namespace laneway::service

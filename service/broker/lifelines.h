// Lifelines: the connections of clients beside ZeroMQ: each session has one, over which descriptors
// come, and whose end is the end of the client's process. Accepts connections, asks whose they are,
// takes descriptor messages for their sessions, and waits on all of them in one epoll. A connection
// that breaks the form, or is not read by its client, is hung up on; connections that have not said
// whose they are have a limit and a time. One thread; never blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/client_session.h"
#include "service/broker/session_table.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/wire/message.h"

namespace laneway::service {

// What clients did that asked for nothing new.
struct IntakeCounters {
  uint64_t malformed = 0;  // messages and lifeline frames that were none
  uint64_t refused = 0;    // that came from somebody else than they said, or past a limit
  uint64_t repeated = 0;   // requests and descriptor messages that came again
};

// Called by Lifelines, inside handle_ready() alone. Each call may end any session.
class LifelineEvents {
 public:
  virtual ~LifelineEvents() = default;
  // The session exists from now on.
  virtual void on_lifeline(ClientSession& session) = 0;
  // Descriptors for the session's request `number` have come, and are held.
  virtual void on_descriptor_message(ClientSession& session, uint64_t number) = 0;
  // The client hung up, or has to be hung up on: the session must end.
  virtual void on_lifeline_end(ClientSession& session) = 0;
};

class Lifelines {
 public:
  // `listener` is bound and listening; `epoll` is a new one. The others must outlive this object.
  Lifelines(Descriptor listener, Descriptor epoll, SessionTable& sessions, LifelineEvents& events,
            const Clock& clock);

  pollfd poll_entry() const { return {epoll_.get(), POLLIN, 0}; }
  // When the first connection has been silent for too long.
  TimePoint next_due() const;
  // Takes what is there, at most some of it from each connection.
  void handle_ready();
  // Hangs up on connections that have been silent for too long.
  void drop_due();

  // Of a session that came back with its lifeline.
  void add(ClientSession& session);
  // Must be called before the session's lifeline is closed.
  void remove(ClientSession& session);
  // Sends descriptors for the request of `envelope`. False: the lifeline takes nothing any more and
  // ends with the next handle_ready(), not within this call.
  bool send(ClientSession& session, const wire::Envelope& envelope, std::vector<Descriptor> fds);

  const IntakeCounters& intake() const { return counters_; }

 private:
  // A connection that has not said whose it is.
  struct PendingConnection {
    Channel channel;
    PeerCredentials peer;
    TimePoint until;
  };

  void accept_connections();
  void read_pending(uint64_t id);
  // Moves the connection to its session when it succeeds.
  Status on_hello(PendingConnection& pending, const Frame& frame);
  void read_lifeline(SessionId id);
  void on_frame(ClientSession& session, Frame frame);
  void watch_lifeline(ClientSession& session, bool added);
  void watch(int descriptor, uint64_t what, uint32_t events, bool added);
  void unwatch(int descriptor);

  const Descriptor listener_;
  const Descriptor epoll_;
  SessionTable& sessions_;
  LifelineEvents& events_;
  const Clock& clock_;
  std::map<uint64_t, PendingConnection> pending_connections_;
  uint64_t last_pending_ = 0;
  IntakeCounters counters_;
};

}  // namespace laneway::service

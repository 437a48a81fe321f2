// Sessions and requests, as the gateway hands them on: who the client is was checked, what the
// request means was not. Plain data, and the interface of whoever takes it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/wire/client_messages.h"
#include "service/wire/message.h"

namespace laneway::service {

struct Session {
  SessionId id;
  wire::Token token{};
  uid_t uid = 0;
  pid_t pid = 0;
  std::string name;  // of the program

  bool is_of(const PeerCredentials& peer) const { return uid == peer.uid && pid == peer.pid; }
};

struct Request {
  SessionId session;
  uint64_t number = 0;  // of the session
  wire::AnyRequest message;
  std::vector<Descriptor> fds;  // as many as the message says that it brings
};

// Called by the gateway, inside handle_ready() alone; may call its reply() at once.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // The session exists now: requests may follow. Not called for sessions that were restored.
  virtual void on_session(const Session& session) = 0;
  // No further requests and no replies. `died`: without a Bye.
  virtual void on_session_end(SessionId session, bool died) = 0;
  // Never Hello or Bye. To be answered with reply(), now or later. The same request may come again
  // after it was answered with descriptors, and after a restart: it is then the same thing again.
  virtual void on_request(Request request) = 0;
};

}  // namespace laneway::service

// Gateway: where clients come in. Requests over ZeroMQ, descriptors and hang-ups over each
// client's lifeline; what leaves here is a request of a session whose process and user the kernel
// vouched for, once, with its descriptors. Hello, LifelineHello and Bye are its own, everything
// else goes to the sink.
//
// A session is who holds its token, over connections of the process that said Hello (both sockets'
// credentials must be the same). It exists once its lifeline is open, and ends with Bye or when the
// lifeline hangs up: when the client's process is gone, however it went. Sessions and descriptors
// that came are held, so that a successor goes on with them; clients repeat what was under way.
//
// Nothing that a client sends can stop it: what is malformed gets a Failure (or silence, when it
// has no header) and is counted; who breaks the lifeline's form, or does not read it, is hung up
// on; sessions, descriptor messages, requests in work and waiting bytes have limits. One thread;
// never blocks.
//
// Its parts: gateway.cc (opening, waiting, replies), gateway_requests.cc (ZeroMQ),
// gateway_lifelines.cc (lifelines, and what was
// held).
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/client_session.h"
#include "service/broker/descriptor_store.h"
#include "service/broker/request_sink.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/transport/zmq_server.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

class Gateway {
 public:
  // What a client is told when it comes.
  struct Facts {
    std::string server_version;
    std::string device;
    uint64_t pool_bytes = 0;
    uint32_t max_in_flight = 0;
    std::string kernels;
  };
  struct Counters {
    uint64_t malformed = 0;  // messages and lifeline frames that were none
    uint64_t refused = 0;    // that came from somebody else than they said, or past a limit
    uint64_t repeated = 0;   // requests that came again
  };

  // Both listeners are bound and listening, the first at `zmq_address` ("ipc://PATH").
  // DescriptorStore, sink and clock outlive the gateway.
  static Result<std::unique_ptr<Gateway>> open(Descriptor zmq_listener,
                                               const std::string& zmq_address,
                                               Descriptor lifeline_listener,
                                               DescriptorStore& holder, RequestSink& sink,
                                               Facts facts, const Clock& clock = steady_clock());

  // What was held under keys that begin with "s/" or "p/", before anything else is asked of it.
  // What makes no sense is released.
  void restore(const std::string& key, const std::vector<std::byte>& note,
               std::vector<Descriptor> fds);

  // Appends what to wait for. next_wakeup() is to be asked directly before the wait.
  void add_to_poll(std::vector<pollfd>& entries) const;
  TimePoint next_wakeup() const;
  // Takes what is there, tells the sink, and ends what has waited too long.
  void handle_ready();

  // The answer to a request that the sink was given; nothing happens when the session is gone or
  // the request was answered. Descriptors go first, over the lifeline; what was held of the request
  // is released.
  void reply(SessionId session, uint64_t number, const wire::AnyReply& message,
             std::vector<Descriptor> fds = {});

  // Those that exist; not those that only said Hello.
  std::vector<Session> sessions() const;
  Counters counters() const;

 private:
  // A connection to the lifeline's socket that has not said whose it is.
  struct PendingConnection {
    uint64_t id = 0;
    Channel channel;
    PeerCredentials peer;
    TimePoint until;
  };
  using SessionPlace = std::map<SessionId, ClientSession>::iterator;

  Gateway(ZmqServer server, Descriptor lifelines, Descriptor watch, DescriptorStore& holder,
          RequestSink& sink, Facts facts, const Clock& clock);
  static const Clock& steady_clock();

  // ---- ZeroMQ (gateway_requests.cc)
  void read_messages();
  void on_message(const ZmqServer::Message& message);
  void on_hello(const ZmqServer::Message& message, const wire::Envelope& envelope);
  void on_bye(SessionPlace place, const std::string& route, const wire::Envelope& envelope);
  void on_session_request(SessionPlace place, const std::string& route, uint64_t number,
                          wire::AnyRequest message);
  void deliver(SessionPlace place, uint64_t number, wire::AnyRequest message);
  Status may_open_session(const PeerCredentials& peer) const;
  void welcome(const ClientSession& session, const std::string& route, uint64_t number);
  void answer(const std::string& route, const wire::Envelope& envelope,
              const wire::AnyReply& message);
  void refuse(const std::string& route, const wire::Envelope& envelope, Error error);

  // ---- lifelines (gateway_lifelines.cc)
  void accept_connections();
  void read_pending(uint64_t id);
  Status on_lifeline_hello(PendingConnection& pending, const Frame& frame);
  void read_lifeline(SessionId session);
  // False: the session has ended by it.
  bool on_lifeline_frame(SessionPlace place, Frame frame);
  void watch_lifeline(SessionPlace place, bool added);

  // ---- ends
  void end_session(SessionPlace place, bool died);
  void end_overdue();

  void hold_session(const Session& session, const Channel* lifeline);
  void watch(int descriptor, uint64_t what, uint32_t events, bool added);
  void unwatch(int descriptor);

  ZmqServer server_;
  Descriptor lifelines_;
  Descriptor watch_;  // an epoll of the lifelines' listener, pending connections and lifelines
  DescriptorStore& holder_;
  RequestSink& sink_;
  const Facts facts_;
  const Clock& clock_;

  std::map<SessionId, ClientSession> sessions_;
  std::map<wire::Token, SessionId> by_token_;
  std::map<uint64_t, PendingConnection> pending_connections_;
  uint64_t last_pending_ = 0;
  uint64_t last_session_ = 0;
  uint64_t held_ids_ = 0;  // numbers up to this one are known to be given, should this process die
  Counters counters_;
};

}  // namespace laneway::service

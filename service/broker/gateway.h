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
// SessionTable has the sessions, Lifelines their connections; gateway.cc answers, and
// gateway_requests.cc takes what comes over ZeroMQ.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/client_session.h"
#include "service/broker/descriptor_store.h"
#include "service/broker/lifelines.h"
#include "service/broker/quotas.h"
#include "service/broker/request_sink.h"
#include "service/broker/session_table.h"
#include "service/transport/descriptor.h"
#include "service/transport/zmq_server.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

class Gateway final : private LifelineEvents {
 public:
  // What a client gets to know when it comes.
  struct Facts {
    std::string server_version;
    std::string device;
    uint64_t pool_bytes = 0;
    uint32_t max_in_flight = 0;
    std::string kernels;
  };
  // Both listeners are bound and listening, the first at `zmq_address` ("ipc://PATH").
  // Store, quotas, sink and clock must outlive the gateway.
  static Result<std::unique_ptr<Gateway>> open(Descriptor zmq_listener,
                                               const std::string& zmq_address,
                                               Descriptor lifeline_listener, DescriptorStore& store,
                                               Quotas& quotas, RequestSink& sink, Facts facts,
                                               const Clock& clock = steady_clock());

  // What was held under keys that begin with "s/" or "p/", before anything else is asked of it.
  // What makes no sense is released.
  void restore(const std::string& key, const std::vector<std::byte>& note,
               std::vector<Descriptor> fds);

  // Appends what to wait for. next_wakeup() is to be asked directly before the wait.
  void add_to_poll(std::vector<pollfd>& entries) const;
  TimePoint next_wakeup() const;
  // Takes what is there, hands it to the sink, and ends what has waited too long.
  void handle_ready();

  // The answer to a request that the sink was given; nothing happens when the session is gone or
  // the request was answered. Descriptors go first, over the lifeline; what was held of the request
  // is released.
  void reply(SessionId session, uint64_t number, const wire::AnyReply& message,
             std::vector<Descriptor> fds = {});

  // The supervisor found no room for what was to be held under this key. A session ends by it, and
  // its client is told; of a request on its way only a new broker would have known.
  void hold_refused(const std::string& key, const Error& why);

  // Those that exist; not those that only said Hello.
  std::vector<Session> sessions() const;
  IntakeCounters counters() const;

 private:
  Gateway(ZmqServer server, Descriptor lifelines, Descriptor watch, DescriptorStore& store,
          Quotas& quotas, RequestSink& sink, Facts facts, const Clock& clock);
  static const Clock& steady_clock();

  void on_lifeline(ClientSession& session) override;
  void on_descriptor_message(ClientSession& session, uint64_t number) override;
  void on_lifeline_end(ClientSession& session) override;

  // ---- ZeroMQ (gateway_requests.cc)
  void read_messages();
  void on_message(const ZmqServer::Message& message);
  void on_hello(const ZmqServer::Message& message, const wire::Envelope& envelope);
  void on_bye(ClientSession& session, const std::string& route, const wire::Envelope& envelope);
  void on_session_request(ClientSession& session, const std::string& route, uint64_t number,
                          wire::AnyRequest message);
  void deliver(ClientSession& session, uint64_t number, wire::AnyRequest message);
  void welcome(const ClientSession& session, const std::string& route, uint64_t number);
  void answer(const std::string& route, const wire::Envelope& envelope,
              const wire::AnyReply& message);
  // What does not decode: counted, and answered with the service's version where the client's is
  // another one.
  void refuse_malformed(const std::string& route, const wire::Envelope& envelope, Error error);
  void refuse(const std::string& route, const wire::Envelope& envelope, Error error);

  void end_session(ClientSession& session, bool died);
  void end_due();

  ZmqServer server_;
  RequestSink& sink_;
  const Facts facts_;
  const Clock& clock_;
  SessionTable sessions_;
  Lifelines lifelines_;
  IntakeCounters counters_;  // of messages over ZeroMQ
};

}  // namespace laneway::service

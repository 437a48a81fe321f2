// SupervisorLink: the broker's channel to the supervisor. Whatever is held is on its way into the
// socket before hold() returns: a broker that dies afterwards has not forgotten it. Not
// thread-safe.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/broker/descriptor_store.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class SupervisorLink final : public DescriptorStore {
 public:
  explicit SupervisorLink(Channel channel) : channel_(std::move(channel)) {}

  void hold(std::string key, std::vector<std::byte> note, std::vector<Descriptor> fds) override;
  void release(const std::string& key) override;
  template <class M>
  void notify(const M& message) {
    send(wire::encode(message), {});
  }

  struct Received {
    wire::supervisor_to_broker::Any message;
    std::vector<Descriptor> fds;
  };
  // The next message if it is there. An error means that there is no supervisor any more, or none
  // that speaks our language: the broker has to go.
  Result<std::optional<Received>> receive();

  pollfd poll_entry() const;
  void flush();
  bool lost() const { return lost_; }

 private:
  void send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds);

  Channel channel_;
  bool lost_ = false;
};

}  // namespace laneway::service

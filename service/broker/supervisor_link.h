// SupervisorLink: the broker's channel to the supervisor. Whatever is to be held is in the socket
// before hold() returns: a broker that dies afterwards has not forgotten it. Until fed() nothing is
// waited for, because a supervisor does not listen while it tells what is held. Not thread-safe.
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

  uint64_t hold(std::string key, std::vector<std::byte> note, std::vector<Descriptor> fds) override;
  uint64_t renote(std::string key, std::vector<std::byte> note, size_t descriptors) override;
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

  // All that was held was told: from now on the supervisor listens.
  void fed() { is_fed_ = true; }

  pollfd poll_entry() const;
  void flush();
  bool lost() const { return lost_; }

 private:
  void send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds);

  Channel channel_;
  uint64_t last_hold_ = 0;
  bool is_fed_ = false;
  bool lost_ = false;
};

}  // namespace laneway::service

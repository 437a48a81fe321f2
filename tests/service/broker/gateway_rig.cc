#include "tests/service/broker/gateway_rig.h"

#include <fcntl.h>
#include <poll.h>

#include "base/check.h"
#include "service/transport/unix_socket.h"

namespace laneway::testing {
namespace {

// A step waits this long at most, because what a test waits for may be at the client's side.
constexpr int kMomentMs = 2;
constexpr int kMostIdleSteps = 30'000;

}  // namespace

GatewayRig::GatewayRig()
    : zmq_listener_(address.listen()), lifeline_listener_(address.listen_lifeline()) {
  open_gateway();
}

void GatewayRig::open_gateway() {
  gateway = std::move(service::Gateway::open(
                          std::move(zmq_listener_.duplicate()).value(), address->text(),
                          std::move(lifeline_listener_.duplicate()).value(), holder, quotas, sink,
                          {.server_version = "0.test",
                           .device = "host",
                           .pool_bytes = 1 << 20,
                           .max_in_flight = 64,
                           .kernels = "cuda"},
                          clock))
                .value();
}

void GatewayRig::restart() {
  gateway.reset();
  open_gateway();
  const std::vector<std::string> keys = holder.order;
  for (const std::string& key : keys) {
    const FakeStore::Entry& entry = holder.entries.at(key);
    std::vector<service::Descriptor> fds;
    for (const service::Descriptor& fd : entry.fds) {
      fds.push_back(std::move(fd.duplicate()).value());
    }
    gateway->restore(key, entry.note, std::move(fds));
  }
}

void GatewayRig::step() {
  std::vector<pollfd> entries;
  gateway->add_to_poll(entries);
  const bool now = gateway->next_wakeup() <= clock.now();
  const int ready = poll(entries.data(), entries.size(), now ? 0 : kMomentMs);
  idle_steps_ = ready > 0 || now ? 0 : idle_steps_ + 1;
  LW_CHECK(idle_steps_ < kMostIdleSteps, "nothing happens any more");
  gateway->handle_ready();
}

RawClient::RawClient(GatewayRig& the_rig)
    : rig(the_rig), socket(std::move(service::ZmqClient::open(*rig.address)).value()) {}

void RawClient::join() {
  hello();
  open_lifeline();
  const auto ready = say_lifeline_hello({welcome.session, welcome.token});
  LW_CHECK(ready && std::holds_alternative<wire::LifelineReady>(*ready), "no lifeline");
}

wire::Welcome RawClient::hello(uint64_t number) {
  welcome.token = {};
  wire::Hello message;
  message.client_version = "0.test";
  message.program = "client";
  const wire::AnyReply reply = ask(message, number);
  LW_CHECK(std::holds_alternative<wire::Welcome>(reply), "no welcome");
  welcome = std::get<wire::Welcome>(reply);
  return welcome;
}

void RawClient::open_lifeline() {
  lifeline =
      service::Channel(std::move(service::connect_unix(rig.address->descriptor_path())).value());
}

std::optional<wire::AnyLifeline> RawClient::say_lifeline_hello(const wire::LifelineHello& hello) {
  LW_CHECK(lifeline.send(wire::encode(hello)).ok());
  const std::optional<service::Frame> frame = next_frame();
  if (!frame) return {};
  return wire::decode<wire::AnyLifeline>(frame->bytes).value();
}

std::optional<service::Frame> RawClient::next_frame() {
  std::optional<service::Frame> frame;
  rig.crank_until([&] {
    Result<std::optional<service::Frame>> received = lifeline.receive();
    if (!received) return true;
    frame = std::move(received).value();
    return frame.has_value();
  });
  return frame;
}

void RawClient::send(const wire::AnyRequest& message, uint64_t number) {
  send_bytes(wire::encode(message, envelope(number)));
}

void RawClient::send_bytes(const std::vector<std::byte>& bytes) {
  rig.crank_until([&] { return socket.send(bytes).ok(); });
}

void RawClient::send_descriptor_message(uint64_t number, size_t count) {
  wire::DescriptorMessage message;
  message.request = number;
  LW_CHECK(lifeline.send(wire::encode(message), some_descriptors(count)).ok());
}

wire::AnyReply RawClient::next_reply(uint64_t* number) {
  std::vector<std::byte> bytes;
  rig.crank_until([&] {
    Result<std::vector<std::byte>> received = socket.receive(Duration());
    if (received) bytes = std::move(received).value();
    return received.ok();
  });
  if (number != nullptr) *number = wire::decode_header(bytes).value().envelope.request;
  return wire::decode<wire::AnyReply>(bytes).value();
}

wire::AnyReply RawClient::ask(const wire::AnyRequest& message, uint64_t number) {
  send(message, number);
  return next_reply();
}

std::vector<service::Descriptor> some_descriptors(size_t count) {
  std::vector<service::Descriptor> fds;
  for (size_t i = 0; i < count; ++i) fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

}  // namespace laneway::testing

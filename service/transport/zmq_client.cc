#include "service/transport/zmq_client.h"

#include <algorithm>
#include <climits>
#include <string>
#include <utility>

#include "base/clock.h"
#include "service/transport/limits.h"
#include "service/transport/zmq_context.h"
#include "service/wire/limits.h"

namespace laneway::service {
namespace {

// A broker comes back within some tens of milliseconds; a service that is gone is not asked often.
constexpr int kReconnectMs = 20;
constexpr int kReconnectMostMs = 500;

}  // namespace

struct ZmqClient::Inside {
  ZmqSocket socket;
};

ZmqClient::ZmqClient(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
ZmqClient::ZmqClient(ZmqClient&&) noexcept = default;
ZmqClient& ZmqClient::operator=(ZmqClient&&) noexcept = default;
ZmqClient::~ZmqClient() = default;

Result<ZmqClient> ZmqClient::open(const Address& address) {
  Result<ZmqSocket> opened = ZmqSocket::open(ZMQ_DEALER);
  if (!opened) return opened.error();
  ZmqSocket socket = std::move(opened).value();
  const int64_t largest = limits::kMaxMessageBytes;
  const int send_queue = limits::kMaxQueuedRequests;
  const int receive_queue = limits::kMaxQueuedReplies;
  for (const Status& status :
       {socket.set(ZMQ_MAXMSGSIZE, largest, "ZMQ_MAXMSGSIZE"),
        socket.set(ZMQ_LINGER, 0, "ZMQ_LINGER"), socket.set(ZMQ_SNDHWM, send_queue, "ZMQ_SNDHWM"),
        socket.set(ZMQ_RCVHWM, receive_queue, "ZMQ_RCVHWM"),
        socket.set(ZMQ_RECONNECT_IVL, kReconnectMs, "ZMQ_RECONNECT_IVL"),
        socket.set(ZMQ_RECONNECT_IVL_MAX, kReconnectMostMs, "ZMQ_RECONNECT_IVL_MAX")}) {
    if (!status) return status.error();
  }
  if (zmq_connect(socket.get(), address.text().c_str()) != 0) {
    return ZmqSocket::failure(address.text() + " is not connected to");
  }
  return ZmqClient(std::unique_ptr<Inside>(new Inside{std::move(socket)}));
}

Status ZmqClient::send(std::span<const std::byte> bytes) {
  if (bytes.size() > limits::kMaxRequestBytes) {
    return Error{ErrorCode::invalid_argument, "a request of " + std::to_string(bytes.size()) +
                                                  " bytes; the limit is " +
                                                  std::to_string(limits::kMaxRequestBytes)};
  }
  if (inside_->socket.send(bytes, 0)) return {};
  if (zmq_errno() != EAGAIN) return ZmqSocket::failure("a request is not sent");
  return Error{ErrorCode::refused,
               "the service does not take requests: " + std::to_string(limits::kMaxQueuedRequests) +
                   " wait for it already"};
}

Result<std::vector<std::byte>> ZmqClient::receive(Duration timeout) {
  const SteadyClock clock;
  const TimePoint end = clock.now() + timeout;
  while (true) {
    ZmqFrame frame;
    if (zmq_msg_recv(frame.get(), inside_->socket.get(), ZMQ_DONTWAIT) >= 0) {
      bool whole = !frame.more();
      for (bool more = !whole; more;) {  // no service of ours sends several frames
        ZmqFrame rest;
        more = zmq_msg_recv(rest.get(), inside_->socket.get(), ZMQ_DONTWAIT) >= 0 && rest.more();
      }
      if (!whole) continue;
      const std::span<const std::byte> bytes = frame.bytes();
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    if (zmq_errno() == EINTR) continue;
    if (zmq_errno() != EAGAIN) return ZmqSocket::failure("no reply is received");
    const Duration left = end - clock.now();
    if (left.ns() <= 0) {
      return Error{ErrorCode::timed_out,
                   "no reply came within " + std::to_string(timeout.seconds()) + " s"};
    }
    zmq_pollitem_t item{inside_->socket.get(), -1, ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, static_cast<long>(std::min<int64_t>(left.ns() / 1'000'000 + 1, INT_MAX)));
  }
}

}  // namespace laneway::service

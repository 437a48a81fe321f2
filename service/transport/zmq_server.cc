#include "service/transport/zmq_server.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "service/transport/limits.h"
#include "service/transport/zmq_context.h"
#include "service/wire/limits.h"

namespace laneway::service {
namespace {

constexpr int kLingerMs = 1'000;

// libzmq says "HOST:UID:GID:PID" of a peer on a Unix socket; what the host is does not matter, and
// a peer cannot say it of itself: its own properties never replace it.
std::optional<PeerCredentials> parse_peer(const char* property) {
  if (property == nullptr) return {};
  std::string_view text(property);
  std::array<int64_t, 3> fields{};  // pid, gid, uid: from the end
  for (int64_t& field : fields) {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return {};
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), field);
    if (error != std::errc() || end != digits.data() + digits.size() || field < 0) return {};
    text = text.substr(0, colon);
  }
  return PeerCredentials{static_cast<pid_t>(fields[0]), static_cast<uid_t>(fields[2]),
                         static_cast<gid_t>(fields[1])};
}

}  // namespace

struct ZmqServer::Inside {
  ZmqSocket socket;
  uint64_t malformed = 0;
};

ZmqServer::ZmqServer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
ZmqServer::ZmqServer(ZmqServer&&) noexcept = default;
ZmqServer& ZmqServer::operator=(ZmqServer&&) noexcept = default;
ZmqServer::~ZmqServer() = default;

Result<ZmqServer> ZmqServer::open(Descriptor listener, const Address& address) {
  Result<ZmqSocket> opened = ZmqSocket::open(ZMQ_ROUTER);
  if (!opened) return opened.error();
  ZmqSocket socket = std::move(opened).value();
  const int64_t largest = limits::kMaxRequestBytes;
  const int receive_queue = limits::kMaxQueuedRequests;
  const int send_queue = limits::kMaxQueuedReplies;
  for (const Status& status : {socket.set(ZMQ_MAXMSGSIZE, largest, "ZMQ_MAXMSGSIZE"),
                               socket.set(ZMQ_LINGER, kLingerMs, "ZMQ_LINGER"),
                               socket.set(ZMQ_RCVHWM, receive_queue, "ZMQ_RCVHWM"),
                               socket.set(ZMQ_SNDHWM, send_queue, "ZMQ_SNDHWM"),
                               // An answer to nobody is an error, not swallowed.
                               socket.set(ZMQ_ROUTER_MANDATORY, 1, "ZMQ_ROUTER_MANDATORY"),
                               socket.set(ZMQ_USE_FD, listener.get(), "ZMQ_USE_FD")}) {
    if (!status) return status.error();
  }
  if (zmq_bind(socket.get(), address.text().c_str()) != 0) {
    return ZmqSocket::failure(address.text() + " is not served");
  }
  // libzmq closes the descriptor that it was given.
  listener.release();
  return ZmqServer(std::unique_ptr<Inside>(new Inside{std::move(socket), 0}));
}

std::optional<ZmqServer::Message> ZmqServer::receive() {
  while (true) {
    ZmqFrame route, content;
    if (zmq_msg_recv(route.get(), inside_->socket.get(), ZMQ_DONTWAIT) < 0) {
      if (zmq_errno() == EINTR) continue;
      return {};
    }
    bool one_frame =
        route.more() && zmq_msg_recv(content.get(), inside_->socket.get(), ZMQ_DONTWAIT) >= 0;
    for (bool more = one_frame && content.more(); more;) {
      // The rest of a message of several frames, which no client of ours sends.
      one_frame = false;
      ZmqFrame rest;
      more = zmq_msg_recv(rest.get(), inside_->socket.get(), ZMQ_DONTWAIT) >= 0 && rest.more();
    }
    const std::optional<PeerCredentials> peer =
        one_frame ? parse_peer(zmq_msg_gets(content.get(), "Peer-Address")) : std::nullopt;
    if (!peer) {
      ++inside_->malformed;
      continue;
    }
    const std::span<const std::byte> id = route.bytes(), bytes = content.bytes();
    return Message{std::string(reinterpret_cast<const char*>(id.data()), id.size()),
                   *peer,
                   {bytes.begin(), bytes.end()}};
  }
}

bool ZmqServer::readable() const { return inside_->socket.readable(); }
int ZmqServer::descriptor() const { return inside_->socket.descriptor(); }
uint64_t ZmqServer::malformed() const { return inside_->malformed; }

bool ZmqServer::send(const std::string& route, std::span<const std::byte> bytes) {
  ZmqSocket& socket = inside_->socket;
  return socket.send(std::as_bytes(std::span(route)), ZMQ_SNDMORE) && socket.send(bytes, 0);
}

}  // namespace laneway::service

#include "service/transport/channel.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/clock.h"

namespace laneway::service {
namespace {

constexpr size_t kHeaderBytes = 8;
// A large frame's buffer grows with what arrives, not with what its header promises.
constexpr size_t kReadStep = 1u << 20;

struct Header {
  uint32_t length = 0;
  uint16_t fds = 0;
  uint16_t zero = 0;
};
static_assert(sizeof(Header) == kHeaderBytes);

// Control data for the most descriptors that any channel takes; more is seen as MSG_CTRUNC.
struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * limits::kMaxFrameDescriptors)> bytes{};
};

Error gone(const char* what) {
  return Error{ErrorCode::unavailable,
               std::string("the other side of the channel is gone: ") + what};
}
Error broken(const std::string& what) {
  return Error{ErrorCode::invalid_argument, "a frame breaks the channel's form: " + what};
}

void take_fds(const msghdr& message, std::vector<Descriptor>& into) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      into.emplace_back(descriptor);
    }
  }
}

}  // namespace

Channel::Channel(Descriptor socket, ChannelLimits channel_limits)
    : socket_(std::move(socket)), limits_(channel_limits) {
  LW_CHECK(limits_.frame_fds <= limits::kMaxFrameDescriptors, "more than the control buffer holds");
}

Result<std::pair<Channel, Channel>> Channel::pair(ChannelLimits channel_limits) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{ErrorCode::failed, std::string("no socketpair: ") + std::strerror(errno)};
  }
  return std::pair(Channel(Descriptor(ends[0]), channel_limits),
                   Channel(Descriptor(ends[1]), channel_limits));
}

Status Channel::send(std::span<const std::byte> bytes, std::vector<Descriptor> fds) {
  if (bytes.size() > limits_.frame_bytes || fds.size() > limits_.frame_fds) {
    return broken(std::to_string(bytes.size()) + " bytes and " + std::to_string(fds.size()) +
                  " descriptors to send; the limits are " + std::to_string(limits_.frame_bytes) +
                  " and " + std::to_string(limits_.frame_fds));
  }
  for (const Descriptor& fd : fds) {
    if (!fd.valid()) return broken("an empty descriptor to send");
  }
  if (queued_bytes_ > 0 && queued_bytes_ + bytes.size() + kHeaderBytes > limits_.queued_bytes) {
    return Error{ErrorCode::refused,
                 "the other side does not read: " + std::to_string(queued_bytes_) +
                     " bytes are queued for it, and the limit is " +
                     std::to_string(limits_.queued_bytes)};
  }
  const Header header{static_cast<uint32_t>(bytes.size()), static_cast<uint16_t>(fds.size()), 0};
  Outgoing frame;
  frame.bytes.resize(kHeaderBytes + bytes.size());
  std::memcpy(frame.bytes.data(), &header, kHeaderBytes);
  std::copy(bytes.begin(), bytes.end(), frame.bytes.begin() + kHeaderBytes);
  frame.fds = std::move(fds);
  queued_bytes_ += frame.bytes.size();
  queue_.push_back(std::move(frame));
  return flush();
}

Status Channel::flush() {
  while (!queue_.empty()) {
    Outgoing& frame = queue_.front();
    const size_t before = frame.sent;
    if (Status status = send_some(frame); !status) return status;
    queued_bytes_ -= frame.sent - before;
    if (frame.sent < frame.bytes.size()) {
      if (frame.sent == before) return {};
      continue;
    }
    queue_.pop_front();
  }
  return {};
}

Status Channel::send_some(Outgoing& frame) {
  ControlBuffer control;
  iovec piece{frame.bytes.data() + frame.sent, frame.bytes.size() - frame.sent};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (frame.sent == 0 && !frame.fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * frame.fds.size());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * frame.fds.size());
    for (size_t i = 0; i < frame.fds.size(); ++i) {
      const int descriptor = frame.fds[i].get();
      std::memcpy(CMSG_DATA(part) + i * sizeof(int), &descriptor, sizeof(int));
    }
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    // ETOOMANYREFS: too many descriptors of this user are in flight; they drain as others read.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS) return {};
    return gone(std::strerror(errno));
  }
  frame.sent += static_cast<size_t>(sent);
  frame.fds.clear();
  return {};
}

bool Channel::all_read() const {
  int unread = 0;
  // What the kernel still has of it. A socket that cannot say is one that nobody reads.
  return queue_.empty() && ::ioctl(socket_.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
}

Result<size_t> Channel::frame_size(std::span<const std::byte> bytes) const {
  Header header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  if (header.length > limits_.frame_bytes || header.fds > limits_.frame_fds || header.zero != 0) {
    return broken("its header says " + std::to_string(header.length) + " bytes and " +
                  std::to_string(header.fds) + " descriptors; the limits are " +
                  std::to_string(limits_.frame_bytes) + " and " +
                  std::to_string(limits_.frame_fds));
  }
  return kHeaderBytes + header.length;
}

Result<bool> Channel::read_up_to(size_t size) {
  const size_t have = incoming_.size();
  ControlBuffer control;
  incoming_.resize(std::min(size, have + kReadStep));
  iovec piece{incoming_.data() + have, incoming_.size() - have};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const int reason = errno;
  incoming_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) {
    if (reason == EAGAIN || reason == EWOULDBLOCK) return false;
    return gone(std::strerror(reason));
  }
  std::vector<Descriptor> fds;
  take_fds(message, fds);
  if (got == 0) return gone(have == 0 ? "it hung up" : "it hung up in the middle of a frame");
  const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (is_cut && limits_.takes_cut_frames && have == 0) {
    incoming_is_cut_ = true;
    return true;
  }
  if (is_cut) {
    return broken("more descriptors than " + std::to_string(limits::kMaxFrameDescriptors) +
                  ", or than this process may open (ulimit -n)");
  }
  if (!fds.empty()) {
    if (have != 0) return broken("descriptors that do not ride with a header's first byte");
    incoming_fds_ = std::move(fds);
  }
  return true;
}

Result<std::optional<Frame>> Channel::receive() {
  while (true) {
    size_t size = kHeaderBytes;
    if (incoming_.empty()) {
      // A look at the header first, so that the whole frame leaves the socket in one call.
      std::array<std::byte, kHeaderBytes> header;
      const ssize_t seen =
          recv(socket_.get(), header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT);
      if (seen == static_cast<ssize_t>(kHeaderBytes)) {
        Result<size_t> checked = frame_size(header);
        if (!checked) return checked.error();
        size = checked.value();
      }
    } else if (incoming_.size() >= kHeaderBytes) {
      Result<size_t> checked = frame_size(incoming_);
      if (!checked) return checked.error();
      size = checked.value();
    }
    if (incoming_.size() < size) {
      Result<bool> read = read_up_to(size);
      if (!read) return read.error();
      if (!read.value()) return std::optional<Frame>();
      continue;
    }
    if (size == kHeaderBytes && incoming_.size() == kHeaderBytes) {
      // A header that came in pieces says the size only now.
      Result<size_t> checked = frame_size(incoming_);
      if (!checked) return checked.error();
      if (checked.value() > kHeaderBytes) continue;
    }
    Header header;
    std::memcpy(&header, incoming_.data(), kHeaderBytes);
    if (header.fds != incoming_fds_.size() && !incoming_is_cut_) {
      return broken("its header says " + std::to_string(header.fds) + " descriptors and " +
                    std::to_string(incoming_fds_.size()) + " came");
    }
    Frame frame;
    frame.bytes.assign(incoming_.begin() + kHeaderBytes, incoming_.end());
    frame.fds = std::move(incoming_fds_);
    frame.is_cut = std::exchange(incoming_is_cut_, false);
    incoming_.clear();
    incoming_fds_.clear();
    // A large frame's buffer is given back; small ones keep theirs.
    if (incoming_.capacity() > kReadStep) incoming_.shrink_to_fit();
    return std::optional<Frame>(std::move(frame));
  }
}

Result<Frame> Channel::receive_wait(Duration timeout) {
  const SteadyClock clock;
  const TimePoint end = clock.now() + timeout;
  while (true) {
    if (Status status = flush(); !status && status.error().code != ErrorCode::unavailable) {
      return status.error();
    }
    Result<std::optional<Frame>> frame = receive();
    if (!frame) return frame.error();
    if (frame.value().has_value()) return std::move(*frame.value());
    const Duration left = end - clock.now();
    if (left.ns() <= 0) {
      return Error{ErrorCode::timed_out,
                   "no frame came within " + std::to_string(timeout.seconds()) + " s"};
    }
    pollfd wait{socket_.get(), static_cast<short>(POLLIN | (wants_write() ? POLLOUT : 0)), 0};
    const int64_t ms = std::min<int64_t>(left.ns() / 1'000'000 + 1, INT_MAX);
    poll(&wait, 1, static_cast<int>(ms));
  }
}

Descriptor Channel::release() && {
  queue_.clear();
  queued_bytes_ = 0;
  return std::move(socket_);
}

std::optional<PeerCredentials> Channel::peer() const {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace laneway::service

// Channel: framed messages with descriptors over a Unix stream socket. Between the service's own
// processes (socketpairs) and, with lower limits, between a client and the broker (the lifeline).
//
// Form of a frame: u32 length, u16 descriptors, u16 zero, then `length` bytes; the descriptors ride
// with the header's first byte. Neither side ever blocks in send: what the socket does not take is
// queued, up to a limit, so two sides that read while they have output queued cannot wait for each
// other. Calls never change the socket's flags, because others may hold the same socket.
//
// A frame of up to some 4 KiB is sent and taken out of the socket whole: a process that dies
// between two calls leaves the stream at a frame's edge, and its successor goes on.
// Owning, move-only; one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "service/transport/descriptor.h"
#include "service/transport/limits.h"

namespace laneway::service {

struct Frame {
  std::vector<std::byte> bytes;
  std::vector<Descriptor> fds;  // closed on exec
  // Its descriptors were lost: this process may open no more. Only where ChannelLimits says so.
  bool is_cut = false;
};

struct ChannelLimits {
  uint32_t frame_bytes = limits::kMaxChannelFrameBytes;  // of one frame, both ways
  uint32_t frame_fds = limits::kMaxFrameDescriptors;
  uint64_t queued_bytes = limits::kMaxChannelQueueBytes;  // not yet taken by the socket
  // A frame whose descriptors this process cannot open comes without any of them. Else it is an
  // error, and the channel of no further use.
  bool takes_cut_frames = false;
};
// Of a client's lifeline: what one client can make the broker keep.
inline constexpr ChannelLimits kLifelineLimits{.frame_bytes = limits::kMaxLifelineFrameBytes,
                                               .frame_fds = limits::kMaxLifelineDescriptors,
                                               .queued_bytes = limits::kMaxLifelineQueueBytes};

// The broker's end of it: what one client sends must not end another's session.
inline constexpr ChannelLimits kServedLifelineLimits{.frame_bytes = limits::kMaxLifelineFrameBytes,
                                                     .frame_fds = limits::kMaxLifelineDescriptors,
                                                     .queued_bytes = limits::kMaxLifelineQueueBytes,
                                                     .takes_cut_frames = true};

// Of the process that connected (or made the socketpair), as the kernel says.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

class Channel {
 public:
  Channel() = default;
  explicit Channel(Descriptor socket, ChannelLimits channel_limits = {});
  static Result<std::pair<Channel, Channel>> pair(ChannelLimits channel_limits = {});

  // Sends the frame, or queues what the socket does not take now. invalid_argument: larger than the
  // limits, or an empty descriptor among `fds`; refused: the queue is full and the frame was not
  // taken; unavailable: the other side is gone.
  Status send(std::span<const std::byte> bytes, std::vector<Descriptor> fds = {});
  // As much of the queue as the socket takes. unavailable: the other side is gone.
  Status flush();
  bool wants_write() const { return !queue_.empty(); }
  // Whether the other side has read all that was sent.
  bool all_read() const;

  // The next frame if it is there whole; nothing if not yet. unavailable: the other side hung up;
  // invalid_argument: it broke the form. After an error the channel is of no further use.
  Result<std::optional<Frame>> receive();
  // Flushes and waits for a frame; timed_out after `timeout`. For clients and tests.
  Result<Frame> receive_wait(Duration timeout);

  bool valid() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }
  const Descriptor& socket() const { return socket_; }
  // The socket alone; what was queued is lost.
  Descriptor release() &&;
  std::optional<PeerCredentials> peer() const;

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;  // header and content
    std::vector<Descriptor> fds;   // until the first byte is sent
    size_t sent = 0;
  };

  Status send_some(Outgoing& frame);
  // One read into incoming_ of up to `size` bytes in all; false: nothing is there now.
  Result<bool> read_up_to(size_t size);
  // What the header in incoming_ or `header` says, checked.
  Result<size_t> frame_size(std::span<const std::byte> header) const;

  Descriptor socket_;
  ChannelLimits limits_;
  std::deque<Outgoing> queue_;
  uint64_t queued_bytes_ = 0;
  std::vector<std::byte> incoming_;  // the part of a frame that is there, header included
  std::vector<Descriptor> incoming_fds_;
  bool incoming_is_cut_ = false;
};

}  // namespace laneway::service

// ZmqSocket: one ZeroMQ socket with a context of its own, and the options that every socket of the
// service has. Included by zmq_server.cc and zmq_client.cc alone. Move-only; one thread.
#pragma once

#include <zmq.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace laneway::service {

class ZmqSocket {
 public:
  // `type` as ZMQ_ROUTER. failed when the process has no descriptors or threads left.
  static Result<ZmqSocket> open(int type) {
    ZmqSocket made;
    made.context_ = zmq_ctx_new();
    if (made.context_ == nullptr) return failure("no context");
    made.socket_ = zmq_socket(made.context_, type);
    if (made.socket_ == nullptr) return failure("no socket");
    return made;
  }
  ZmqSocket(ZmqSocket&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(socket_, other.socket_);
    return *this;
  }
  // Waits for what is not yet sent, ZMQ_LINGER at most.
  ~ZmqSocket() {
    if (socket_ != nullptr) zmq_close(socket_);
    if (context_ == nullptr) return;
    while (zmq_ctx_term(context_) != 0 && errno == EINTR) {
    }
  }

  template <class T>
  Status set(int option, const T& value, const char* name) {
    if (zmq_setsockopt(socket_, option, &value, sizeof(value)) == 0) return {};
    return failure(name);
  }
  // False: the queue is full, or (errno says) nobody is there. libzmq looks rarely for room that
  // the other side has made when it is not to wait, so it is made to look before it is believed.
  bool send(std::span<const std::byte> bytes, int flags) {
    for (bool looked = false;;) {
      if (zmq_send(socket_, bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT) >= 0) return true;
      if (zmq_errno() == EINTR) continue;
      if (zmq_errno() != EAGAIN || looked) return false;
      readable();
      looked = true;
    }
  }
  // Asks for ZMQ_EVENTS, which also does the work that ZMQ_FD announced.
  bool readable() const {
    int events = 0;
    size_t size = sizeof(events);
    return zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
  }
  int descriptor() const {
    int descriptor = -1;
    size_t size = sizeof(descriptor);
    zmq_getsockopt(socket_, ZMQ_FD, &descriptor, &size);
    return descriptor;
  }
  void* get() const { return socket_; }

  static Error failure(const std::string& what) {
    return Error{ErrorCode::failed, "ZeroMQ: " + what + ": " + zmq_strerror(zmq_errno())};
  }

 private:
  ZmqSocket() = default;

  void* context_ = nullptr;
  void* socket_ = nullptr;
};

// One frame, closed with its scope.
class ZmqFrame {
 public:
  ZmqFrame() { zmq_msg_init(&message_); }
  ~ZmqFrame() { zmq_msg_close(&message_); }
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;

  zmq_msg_t* get() { return &message_; }
  std::span<const std::byte> bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  bool more() { return zmq_msg_more(&message_) != 0; }

 private:
  zmq_msg_t message_;
};

}  // namespace laneway::service

// RemoteStream and RemoteEvent: the host's, which answer nothing but the loss once their device is
// lost; whoever waits for an event may be the one to find it so.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "memory/device/device.h"
#include "tests/remote_backend/remote_loss.h"

namespace laneway::testing {

class RemoteEvent final : public memory::Event {
 public:
  RemoteEvent(std::unique_ptr<memory::Event> host, std::shared_ptr<RemoteLoss> loss)
      : loss_(std::move(loss)), host_(std::move(host)) {}

  memory::EventState query() const override { return host_->query(); }
  Status synchronize() override {
    Status done = host_->synchronize();
    if (breaks_) loss_->lose();
    Status health = loss_->health();
    return health ? done : health;
  }

 private:
  friend class RemoteStream;

  const std::shared_ptr<RemoteLoss> loss_;
  const std::unique_ptr<memory::Event> host_;
  bool breaks_ = false;
};

class RemoteStream final : public memory::Stream {
 public:
  RemoteStream(std::unique_ptr<memory::Stream> host, std::shared_ptr<const RemoteLoss> loss)
      : loss_(std::move(loss)), host_(std::move(host)) {}

  Status copy_to_device(void* to, const void* from_host, Bytes bytes) override {
    return unless_lost([&] { return host_->copy_to_device(to, from_host, bytes); });
  }
  Status copy_to_host(void* to_host, const void* from, Bytes bytes) override {
    return unless_lost([&] { return host_->copy_to_host(to_host, from, bytes); });
  }
  Status copy_on_device(void* to, const void* from, Bytes bytes) override {
    return unless_lost([&] { return host_->copy_on_device(to, from, bytes); });
  }
  Status fill(void* to, std::byte value, Bytes bytes) override {
    return unless_lost([&] { return host_->fill(to, value, bytes); });
  }
  Status record(memory::Event& event) override {
    auto& remote = static_cast<RemoteEvent&>(event);
    remote.breaks_ = breaks_;
    return unless_lost([&] { return host_->record(*remote.host_); });
  }
  Status wait(const memory::Event& event) override {
    const auto& remote = static_cast<const RemoteEvent&>(event);
    return unless_lost([&] { return host_->wait(*remote.host_); });
  }
  Status host_function(std::function<void()> function) override {
    return unless_lost([&] { return host_->host_function(std::move(function)); });
  }
  // What is under way is waited for in any case: its memory may be gone afterwards.
  Status synchronize() override {
    Status done = host_->synchronize();
    Status health = loss_->health();
    return health ? done : health;
  }

  // Whether who waits for an event that is recorded from now on loses the device.
  void break_at_events(bool on) { breaks_ = on; }

 private:
  template <class Call>
  Status unless_lost(const Call& call) {
    Status health = loss_->health();
    return health ? call() : health;
  }

  const std::shared_ptr<const RemoteLoss> loss_;
  const std::unique_ptr<memory::Stream> host_;
  bool breaks_ = false;
};

}  // namespace laneway::testing

// PacedDevice: a device in a world with one clock, in which a node takes as long as the test says.
// Time passes when the test says so, and while somebody waits for an event. Only streams and
// events; no memory, no copies. For tests of who waits for whom.
#pragma once

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "memory/device/device.h"

namespace laneway::adaptor::testing {

class PacedDevice final : public memory::Device {
 public:
  explicit PacedDevice(ManualClock& clock) : clock_(clock) { capabilities_.name = "paced"; }

  // Work that begins when what was enqueued before it is done.
  void enqueue(Duration takes) {
    const TimePoint begins = std::max(free_at_, clock_.now());
    if (free_at_ < clock_.now()) idle_ += clock_.now() - free_at_;
    free_at_ = begins + takes;
  }
  // How long the device would go on if nothing more came.
  Duration backlog() const { return std::max(free_at_ - clock_.now(), Duration()); }
  // How long it had nothing to do, up to the newest work.
  Duration idle() const { return idle_; }
  // Every call from here on fails.
  void fail() { failed_ = true; }

  const memory::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_pool(Bytes) override { return none(); }
  Result<std::unique_ptr<memory::MemoryBlock>> allocate_host(Bytes) override { return none(); }
  Result<std::unique_ptr<memory::MemoryBlock>> pin(std::byte*, Bytes) override { return none(); }
  Result<std::unique_ptr<memory::Stream>> create_stream() override {
    return std::unique_ptr<memory::Stream>(std::make_unique<PacedStream>(*this));
  }
  Result<std::unique_ptr<memory::Event>> create_event() override {
    return std::unique_ptr<memory::Event>(std::make_unique<PacedEvent>(*this));
  }

 private:
  class PacedEvent final : public memory::Event {
   public:
    explicit PacedEvent(PacedDevice& device) : device_(device) {}
    memory::EventState query() const override {
      return device_.clock_.now() < at ? memory::EventState::pending : memory::EventState::done;
    }
    Status synchronize() override { return device_.wait_until(at); }

    TimePoint at;

   private:
    PacedDevice& device_;
  };

  class PacedStream final : public memory::Stream {
   public:
    explicit PacedStream(PacedDevice& device) : device_(device) {}
    Status copy_to_device(void*, const void*, Bytes) override { return none(); }
    Status copy_to_host(void*, const void*, Bytes) override { return none(); }
    Status copy_on_device(void*, const void*, Bytes) override { return none(); }
    Status fill(void*, std::byte, Bytes) override { return none(); }
    Status record(memory::Event& event) override {
      static_cast<PacedEvent&>(event).at = device_.free_at_;
      return device_.status();
    }
    Status wait(const memory::Event&) override { return none(); }
    Status host_function(std::function<void()>) override { return none(); }
    Status synchronize() override { return device_.wait_until(device_.free_at_); }

   private:
    PacedDevice& device_;
  };

  static Error none() { return {ErrorCode::unsupported, "a paced device has only its pace"}; }
  Status status() const {
    if (failed_) return Error{ErrorCode::failed, "the device is on fire"};
    return {};
  }
  Status wait_until(TimePoint when) {
    if (clock_.now() < when) clock_.advance(when - clock_.now());
    return status();
  }

  ManualClock& clock_;
  memory::Capabilities capabilities_;
  TimePoint free_at_;
  Duration idle_;
  bool failed_ = false;
};

}  // namespace laneway::adaptor::testing

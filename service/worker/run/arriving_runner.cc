#include "service/worker/run/arriving_runner.h"

namespace laneway::service {

template <class Wait>
bool ArrivingRunner::wait(const Wait& wait) {
  const TimePoint start = image_.clock.now();
  image_.on_wait(true);
  const bool there = wait();
  image_.on_wait(false);
  image_.waited += image_.clock.now() - start;
  return there;
}

Status ArrivingRunner::begin(std::span<const lanes::InputView> inputs) {
  image_.starts.clear();
  image_.starts.reserve(image_.needs.size());
  began_ = image_.clock.now() + image_.waited * -1;
  Status begun = ForwardingRunner::begin(inputs);
  needs_all_ = begun && image_.recorded != nullptr && image_.recorded->replays();
  return begun;
}

void ArrivingRunner::note_start() {
  image_.starts.push_back(image_.clock.now() - began_ - image_.waited);
}

lanes::NodeOutcome ArrivingRunner::run_node(size_t index) {
  const Bytes need = needs_all_ ? image_.needs.back() : image_.needs[index];
  if (!image_.arrival.has(need) && !wait([&] { return image_.arrival.wait(need); })) {
    return lanes::NodeOutcome::failed;
  }
  if (need > ordered_) lane_error_ = order_behind(need);
  if (!lane_error_) return lanes::NodeOutcome::failed;
  note_start();
  return ForwardingRunner::run_node(index);
}

Status ArrivingRunner::order_behind(Bytes need) {
  const pipeline::ImageArrival::Coming coming = image_.arrival.coming(need);
  ordered_ = coming.bytes;
  return coming.there != nullptr ? lane_.wait_for(*coming.there) : Status();
}

bool ArrivingRunner::may_write() {
  const pipeline::ImageArrival& arrival = image_.arrival;
  if (!arrival.is_whole() && !wait([&] { return arrival.wait_whole(); })) return false;
  image_.before_writes();
  return true;
}

// An answer is given when all bytes are known to be right, not when they are there.
Status ArrivingRunner::finish(std::span<const lanes::OutputView> outputs) {
  const pipeline::ImageArrival& arrival = image_.arrival;
  if (!arrival.is_whole() && !wait([&] { return arrival.wait_whole(); })) return error_;
  note_start();
  return ForwardingRunner::finish(outputs);
}

}  // namespace laneway::service

#include "service/worker/image_arrival.h"

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

lanes::NodeOutcome ArrivingRunner::run_node(size_t index) {
  const Bytes need = image_.needs[index];
  if (!image_.arrival.has(need) && !wait([&] { return image_.arrival.wait(need); })) {
    return lanes::NodeOutcome::failed;
  }
  return runner_.run_node(index);
}

bool ArrivingRunner::may_write() {
  const ImageArrival& arrival = image_.arrival;
  if (!arrival.is_whole() && !wait([&] { return arrival.wait_whole(); })) return false;
  image_.before_writes();
  return true;
}

// An answer is given when all bytes are known to be right, not when they are there.
Status ArrivingRunner::finish(std::span<const lanes::OutputView> outputs) {
  const ImageArrival& arrival = image_.arrival;
  if (!arrival.is_whole() && !wait([&] { return arrival.wait_whole(); })) return error_;
  return runner_.finish(outputs);
}

}  // namespace laneway::service

#include "simulator/devices.h"

#include <algorithm>
#include <numeric>

#include "base/time.h"

namespace laneway::simulator {
namespace {

// One device, with the time at which each of its lanes has done what it was given.
class Device {
 public:
  explicit Device(uint32_t lanes) : free_at_(lanes) {}

  double work_left_s(TimePoint now) const {
    double left_s = 0;
    for (const TimePoint at : free_at_) left_s += std::max(at - now, Duration()).seconds();
    return left_s;
  }
  void take(const SimJob& job) {
    TimePoint& lane = *std::min_element(free_at_.begin(), free_at_.end());
    const Duration length = job.iteration * static_cast<int64_t>(job.iterations);
    lane = std::max(lane, job.submit) + length;
  }

 private:
  std::vector<TimePoint> free_at_;
};

}  // namespace

std::vector<uint32_t> devices_of(std::span<const SimJob> jobs, const Devices& devices) {
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return jobs[a].submit < jobs[b].submit; });
  std::vector<Device> all(devices.count, Device(devices.lanes));
  std::vector<uint32_t> chosen(jobs.size(), 0);
  for (const size_t number : order) {
    const SimJob& job = jobs[number];
    double least_s = 0;
    for (uint32_t i = 0; i < devices.count; ++i) {
      const double left_s = all[i].work_left_s(job.submit);
      if (i > 0 && left_s >= least_s) continue;
      least_s = left_s;
      chosen[number] = i;
    }
    if (job.persistent + job.ephemeral <= devices.room) all[chosen[number]].take(job);
  }
  return chosen;
}

}  // namespace laneway::simulator

// Executor: the threads that do the work of all streams, each in its order: one for the device, and
// one for what calls functions of the host, so that one that blocks holds up its own stream and
// other such functions, and nothing else. Which stream goes on, where several could, is drawn from
// a seeded generator, so an order that nothing enforces is not the order that happens. All
// functions are called with the Gpu's mutex held.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "tests/fake_cuda/settings.h"
#include "tests/fake_cuda/stream.h"

namespace laneway::fake_cuda {

class Executor {
 public:
  // Hears every step that begins and the errors that steps answer.
  struct Listener {
    std::function<void(const Step&, const Stream&)> begins;
    std::function<void(CUresult, const Step&)> failed;
  };

  Executor(Mutex& mutex, const Settings& settings, Listener listener);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The stream's queue is carried out to its end even when nobody else has the stream any more.
  void enqueue(const std::shared_ptr<Stream>& stream, Work work);
  // Returns when the mark is done (at once for null). The mutex is given up meanwhile.
  void wait(const std::shared_ptr<Mark>& mark) LW_NO_THREAD_SAFETY_ANALYSIS;
  // Something outside of the queues changed: a hold, the device's health.
  void wake() { changed_.notify_all(); }

  // All queued work is over without having been done, from now on as well while `dead`.
  void set_dead(bool dead);
  void hold(int change) { holds_ += change; }
  size_t pending() const { return pending_; }

 private:
  void run() LW_NO_THREAD_SAFETY_ANALYSIS;
  void run_host_functions() LW_NO_THREAD_SAFETY_ANALYSIS;
  void start();
  std::shared_ptr<Stream> choose();
  void finish(const Work& work, Stream& stream) LW_NO_THREAD_SAFETY_ANALYSIS;
  void carry_out(const Work& work, const Stream& stream) LW_NO_THREAD_SAFETY_ANALYSIS;

  Mutex& mutex_;
  const Settings& settings_;
  const Listener listener_;
  CondVar changed_;  // work came, or something that may let it begin
  CondVar done_;     // a mark is done
  std::vector<std::shared_ptr<Stream>> busy_;
  std::deque<std::pair<std::shared_ptr<Stream>, Work>> host_functions_;
  std::mt19937_64 chance_;
  int holds_ = 0;
  bool dead_ = false;
  bool started_ = false;
  size_t pending_ = 0;
};

}  // namespace laneway::fake_cuda

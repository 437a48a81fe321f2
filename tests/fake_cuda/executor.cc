#include "tests/fake_cuda/executor.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace laneway::fake_cuda {

using std::chrono::steady_clock;

Executor::Executor(Mutex& mutex, const Settings& settings, Listener listener)
    : mutex_(mutex), settings_(settings), listener_(std::move(listener)), chance_(settings.seed) {}

void Executor::enqueue(const std::shared_ptr<Stream>& stream, Work work) {
  work.not_before = steady_clock::now() + std::chrono::microseconds(settings_.delay_us);
  stream->last = work.mark;
  if (std::find(busy_.begin(), busy_.end(), stream) == busy_.end()) busy_.push_back(stream);
  stream->queue.push_back(std::move(work));
  ++pending_;
  start();
  changed_.notify_all();
}

void Executor::wait(const std::shared_ptr<Mark>& mark) {
  while (mark != nullptr && !mark->done) done_.wait(mutex_);
}

void Executor::set_dead(bool dead) {
  dead_ = dead;
  changed_.notify_all();
}

void Executor::start() {
  if (std::exchange(started_, true)) return;
  // Never joined: they work until the process ends, on state that is never destroyed.
  std::thread([this] { run(); }).detach();
  std::thread([this] { run_host_functions(); }).detach();
}

void Executor::run() {
  MutexLock lock(mutex_);
  while (true) {
    const std::shared_ptr<Stream> stream = choose();
    if (stream == nullptr) {
      // Delays are short: while one runs, the queues are looked at every millisecond.
      if (settings_.delay_us > 0 && pending_ > 0) {
        changed_.wait_for(mutex_, Duration(1'000'000));
      } else {
        changed_.wait(mutex_);
      }
      continue;
    }
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->running = true;
    const bool calls_host = std::any_of(work.steps.begin(), work.steps.end(),
                                        [](const auto& step) { return step->host != nullptr; });
    if (calls_host && !dead_) {
      host_functions_.emplace_back(stream, std::move(work));
      changed_.notify_all();
    } else {
      finish(work, *stream);
    }
  }
}

void Executor::run_host_functions() {
  MutexLock lock(mutex_);
  while (true) {
    while (host_functions_.empty()) changed_.wait(mutex_);
    const auto [stream, work] = std::move(host_functions_.front());
    host_functions_.pop_front();
    finish(work, *stream);
    changed_.notify_all();
  }
}

void Executor::finish(const Work& work, Stream& stream) {
  carry_out(work, stream);
  work.mark->done = true;
  work.mark->when = steady_clock::now();
  stream.running = false;
  --pending_;
  done_.notify_all();
}

std::shared_ptr<Stream> Executor::choose() {
  std::erase_if(busy_, [](const auto& stream) { return stream->queue.empty(); });
  const auto now = steady_clock::now();
  std::vector<std::shared_ptr<Stream>> able;
  for (const auto& stream : busy_) {
    if (stream->running) continue;
    const Work& work = stream->queue.front();
    const bool held = (holds_ > 0 || stream->holds > 0) || work.not_before > now;
    const bool ready = std::all_of(work.after.begin(), work.after.end(),
                                   [](const auto& mark) { return mark->done; });
    if (dead_ || (!held && ready)) able.push_back(stream);
  }
  return able.empty() ? nullptr : able[chance_() % able.size()];
}

void Executor::carry_out(const Work& work, const Stream& stream) {
  for (const auto& step : work.steps) {
    if (dead_) return;
    listener_.begins(*step, stream);
    if (dead_) return;
    if (step->host) {
      mutex_.unlock();
      step->host();
      mutex_.lock();
    } else if (step->run) {
      const CUresult result = step->run();
      if (result != CUDA_SUCCESS) listener_.failed(result, *step);
    }
  }
}

}  // namespace laneway::fake_cuda

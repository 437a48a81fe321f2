// laneway-switch-schedules: how long a request waits for a model that is away, under one schedule
// and another, with the engine, the link and the copies of the service, but without the service.
//
//     laneway-switch-schedules FOLDER RATE CORE COPY_CORE
//
// FOLDER as in switch_job.h; RATE bytes a second; the lane and the copying thread stay on their
// cores (-1: anywhere). Prints a line with "needs" (bytes, by node and for the answer), "modules"
// (pieces of the emulation) and "size", then answers each line SCHEDULE on stdin with a line: times
// in ns since the request, which is when both threads are told. "copy": its beginning and end;
// "waits": from, to, of the lane; "starts": when each node began, and the answer; "messages": from
// the end of a group's copy until the lane, which waited for it, went on; "answer".
//
// Before each the pool has NaN where the image goes, and each answer is compared with what it must
// be. SCHEDULE is one of
//     ready        the image is there
//     whole        all of it is copied, then the graph runs; pageable: through another buffer
//     watermark    nodes run behind the copy, which tells of each MiB: what the service does
//     per_slot     the same, with a copy a slot
//     per_layer    the same, with a copy for each change of what the nodes need
//     pipeswitch   groups by module; for each the copying thread waits for the copy and sends one
//                  message through a pipe, which the lane reads before the module's first node
//                  (as the released code of PipeSwitch, Bai et al., OSDI 2020, does it in Python)
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "bench/switch_job.h"
#include "bench/trial_loop.h"
#include "lanes/run/forwarding_runner.h"
#include "pipeline/image_arrival.h"

namespace {

using laneway::Bytes;
using laneway::bench::give_up;
using laneway::bench::now_ns;
using laneway::bench::Piece;
using laneway::bench::SwitchJob;

struct Schedule {
  std::vector<Piece> pieces;
  bool runs_behind = true;  // else: when all is there
  bool bounces = false;
  bool sends_messages = false;
};

struct Trial {
  int64_t request = 0;
  std::array<int64_t, 2> copy{};
  std::vector<std::array<int64_t, 2>> waits;
  std::vector<int64_t> starts;
  std::vector<int64_t> messages;
  int64_t answer = 0;
};

// What the copying thread tells the lane.
class Told {
 public:
  Told() {
    if (::pipe(pipe_.data()) != 0) give_up("a pipe cannot be made");
  }
  ~Told() {
    for (const int end : pipe_) ::close(end);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  laneway::pipeline::ImageArrival& arrival() { return arrival_; }
  struct Message {
    int64_t end = 0;  // of the bytes
    int64_t sent = 0;
  };
  void send(const Message& message) {
    if (::write(pipe_[1], &message, sizeof message) != sizeof message) give_up("the pipe broke");
  }
  Message receive() {
    Message message;
    if (::read(pipe_[0], &message, sizeof message) != sizeof message) give_up("the pipe broke");
    return message;
  }

 private:
  laneway::pipeline::ImageArrival arrival_;
  std::array<int, 2> pipe_{};
};

// Around the graph's runner: each node waits for its bytes.
class WaitingRunner final : public laneway::lanes::ForwardingRunner {
 public:
  WaitingRunner(SwitchJob& job, const Schedule& schedule, Told& told, Trial& trial)
      : ForwardingRunner(job.runner()),
        job_(job),
        schedule_(schedule),
        told_(told),
        trial_(trial) {}

  laneway::lanes::NodeOutcome run_node(size_t index) override {
    need(job_.needs()[index]);
    return ForwardingRunner::run_node(index);
  }
  laneway::Status finish(std::span<const laneway::lanes::OutputView> outputs) override {
    need(job_.needs().back());
    return ForwardingRunner::finish(outputs);
  }

 private:
  void need(Bytes bytes) {
    if (!schedule_.pieces.empty()) wait(bytes);
    trial_.starts.push_back(now_ns() - trial_.request);
  }

  void wait(Bytes bytes) {
    if (!schedule_.sends_messages && told_.arrival().has(bytes)) return;
    if (schedule_.sends_messages && received_ >= bytes.count()) return;
    const int64_t from = now_ns();
    if (!schedule_.sends_messages) {
      if (!told_.arrival().wait(bytes)) give_up("the image does not come");
    }
    while (schedule_.sends_messages && received_ < bytes.count()) {
      const Told::Message message = told_.receive();
      received_ = message.end;
      // One that was sent before the lane waited cost the lane nothing but the reading.
      if (message.sent > from) trial_.messages.push_back(now_ns() - message.sent);
    }
    trial_.waits.push_back({from - trial_.request, now_ns() - trial_.request});
  }

  SwitchJob& job_;
  const Schedule& schedule_;
  Told& told_;
  Trial& trial_;
  int64_t received_ = 0;
};

void copy(SwitchJob& job, const Schedule& schedule, Told& told, Trial& trial) {
  trial.copy[0] = now_ns() - trial.request;
  for (const Piece& piece : schedule.pieces) {
    job.copy(piece, schedule.bounces);
    trial.copy[1] = now_ns() - trial.request;  // before the lane can know: it answers later
    if (schedule.sends_messages) {
      told.send({piece.end.count(), now_ns()});
    } else if (schedule.runs_behind) {
      told.arrival().advance(piece.end);
    }
  }
  told.arrival().finish(true);
}

// The copying thread waits for requests as the service's does.
class Copier {
 public:
  Copier(SwitchJob& job, int core)
      : thread_([this, &job, core] {
          laneway::bench::stay_on_core(core);
          for (asked_.acquire(); schedule_ != nullptr; asked_.acquire()) {
            copy(job, *schedule_, *told_, *trial_);
            done_.release();
          }
        }) {}
  ~Copier() {
    schedule_ = nullptr;
    asked_.release();
    thread_.join();
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  void ask(const Schedule& schedule, Told& told, Trial& trial) {
    schedule_ = &schedule;
    told_ = &told;
    trial_ = &trial;
    asked_.release();
  }
  void wait() { done_.acquire(); }

 private:
  const Schedule* schedule_ = nullptr;
  Told* told_ = nullptr;
  Trial* trial_ = nullptr;
  std::binary_semaphore asked_{0};
  std::binary_semaphore done_{0};
  std::thread thread_;  // last: it uses the others
};

Trial run(SwitchJob& job, const Schedule& schedule, Copier& copier) {
  Trial trial;
  Told told;
  trial.starts.reserve(job.needs().size());
  const bool copies = !schedule.pieces.empty();
  copies ? job.take_away() : job.put_there();
  if (copies) told.arrival().begin();
  WaitingRunner runner(job, schedule, told, trial);
  trial.request = now_ns();
  if (copies) copier.ask(schedule, told, trial);
  if (copies && !schedule.runs_behind && !told.arrival().wait_whole()) give_up("no image came");
  job.run(runner);
  trial.answer = now_ns() - trial.request;
  if (copies) copier.wait();
  return trial;
}

std::map<std::string, Schedule> schedules(const SwitchJob& job) {
  std::vector<Piece> mebibytes;
  for (Bytes at; at < job.size(); at += laneway::mib(1)) {
    mebibytes.push_back({at, std::min(at + laneway::mib(1), job.size())});
  }
  const std::vector<Piece> whole{{Bytes(), job.size()}};
  return {{"ready", {}},
          {"whole", {.pieces = whole, .runs_behind = false}},
          {"pageable", {.pieces = whole, .runs_behind = false, .bounces = true}},
          {"watermark", {.pieces = mebibytes}},
          {"per_slot", {.pieces = job.by_slot()}},
          {"per_layer", {.pieces = job.by_need()}},
          {"pipeswitch", {.pieces = job.by_module(), .sends_messages = true}}};
}

void print(const char* name, const std::vector<int64_t>& values) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(values[i]));
  }
  std::printf("], ");
}

void print(const Trial& trial) {
  std::printf("{");
  print("copy", {trial.copy[0], trial.copy[1]});
  print("starts", trial.starts);
  print("messages", trial.messages);
  std::vector<int64_t> waits;
  for (const auto& [from, to] : trial.waits) waits.insert(waits.end(), {from, to});
  print("waits", waits);
  std::printf("\"answer\": %lld}\n", static_cast<long long>(trial.answer));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: laneway-switch-schedules FOLDER RATE CORE COPY_CORE\n");
    return 2;
  }
  SwitchJob job(argv[1], std::stoll(argv[2]));
  laneway::bench::stay_on_core(std::stoi(argv[3]));
  Copier copier(job, std::stoi(argv[4]));
  const std::map<std::string, Schedule> known = schedules(job);
  std::printf("{");
  std::vector<int64_t> needs;
  for (const Bytes need : job.needs()) needs.push_back(need.count());
  print("needs", needs);
  print("modules", {static_cast<int64_t>(known.at("pipeswitch").pieces.size())});
  std::printf("\"size\": %lld}\n", static_cast<long long>(job.size().count()));
  std::fflush(stdout);
  for (std::string name; std::cin >> name;) {
    const auto schedule = known.find(name);
    if (schedule == known.end()) give_up("there is no schedule '" + name + "'");
    print(run(job, schedule->second, copier));
    std::fflush(stdout);
  }
  return 0;
}

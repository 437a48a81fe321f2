// FakeWorker: keeps to what a worker owes the broker, without torch, threads or memory: it admits,
// places, runs turns that do nothing, and outlives brokers. restart() is its successor, which knows
// of its predecessor what a journal would have.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "service/broker/link_files.h"
#include "service/transport/channel.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class FakeWorker {
 public:
  struct Link {
    LinkFiles files;  // without the pipe's read end
    std::set<uint32_t> segments;
  };
  struct Job {
    wire::to_worker::AddJob message;
    std::set<uint32_t> graphs;
    std::map<uint32_t, Link> links;
    LaneId lane;
    Bytes offset;
    Bytes size;
    bool placed = false;
    bool closing = false;
    TurnId turn;
  };

  // A new broker's: what the one before said is heard first.
  void connect(Channel channel);
  // Handles all that was said; true when that was anything.
  bool pump();
  // Another process takes over: only the journal is left.
  void restart();

  // Something is queued for it.
  void ready(JobId job) { tell(lanes::WorkReady{job}); }
  // Its open turn fails.
  void fail(JobId job);
  // … and it says at once that nothing is left of the job.
  void fail_for_good(JobId job) {
    fail(job);
    gone(job, /*failed=*/true);
  }
  // Says what no worker should.
  void tell(const lanes::Event& event) { say(wire::from_worker::Events{{event}}); }

  std::map<JobId, Job> jobs;
  std::map<RegionId, lanes::ReportedRegion> regions;
  uint64_t reports = 0;
  std::set<uint64_t> quarantined;                             // by job
  std::vector<std::pair<uint64_t, lanes::Residency>> wishes;  // of jobs

 private:
  template <class M>
  void say(const M& message);
  void reply(uint64_t request, Status status = {});
  Job* find(uint64_t job);
  void on(const wire::to_worker::AddJob& message);
  void on(const wire::to_worker::AddGraph& message);
  void on(const wire::to_worker::DropGraph& message);
  void on(const wire::to_worker::AddLink& message);
  void on(const wire::to_worker::DropLink& message);
  void on(const wire::to_worker::AddSegment& message);
  void on(const wire::to_worker::DropSegment& message);
  void on(const wire::to_worker::CloseJob& message);
  void on(const wire::to_worker::JobReport& message);
  void on(const wire::to_worker::ReleaseJob& message);
  void on(const wire::to_worker::SetResidency& message);
  void on(const wire::to_worker::Actions& message);
  void on(const wire::to_worker::Recovered& message);
  void carry_out(const lanes::Action& action);
  void gone(JobId job, bool failed);

  Channel channel_;
  std::vector<Descriptor> fds_;  // of the message at hand
  struct Journal {
    LaneId lane;
    Bytes offset;
    Bytes size;
  };
  std::map<JobId, Journal> journal_;  // of those that are placed
  TurnId last_turn_;
  RegionId last_region_;
};

}  // namespace laneway::service

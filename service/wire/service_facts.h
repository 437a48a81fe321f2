// What the service knows of itself and the core does not: its processes, whose its jobs are. Beside
// a snapshot of the core it is all that a status says (service/status). Plain data; it travels in
// StatusReply (service/wire/client_replies.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/torch_version.h"

namespace laneway::wire {

struct WorkerFacts {
  int64_t pid = 0;
  std::string role;   // "active", "standby"
  std::string state;  // "starting", "ready", "lost"
  // Of a standby that prepares the service's jobs: how many there are, and how many are done.
  std::optional<uint32_t> jobs_to_prepare{};
  std::optional<uint32_t> jobs_prepared{};
  TorchVersions torch{};
};

// What the core does not know of a job.
struct JobFacts {
  JobId job{};
  std::string user;
  // What it did to its workers, of one that is quarantined.
  std::optional<std::string> blame{};
  Bytes moved{};               // of its image, by the copy that is under way
  std::string client_torch{};  // version with which its graphs are captured; empty: not known
};

struct RecoveryFacts {
  Bytes capacity;
  Bytes used;
};

// The process of a policy from outside the tree.
struct PolicyProcessFacts {
  bool is_running = false;  // and says who goes first; else fifo does
  std::optional<int32_t> pid{};
  std::string reason{};  // why the last one ended, or why there is none; empty: there is none
};

// What a broker counts beside its cores; it survives the broker, up to the last few seconds.
struct ServiceCounters {
  uint64_t active_deaths = 0;  // of workers, by their role
  uint64_t standby_deaths = 0;
  uint64_t policy_deaths = 0;  // of processes of policies from outside the tree
  uint64_t broker_deaths = 0;
  uint64_t lost_records = 0;  // of traces, iterations that were not reported among them
};

// Something that clients can make the service keep, and how much of it it keeps.
struct LimitFacts {
  struct User {
    std::string user;
    uint64_t used = 0;
  };

  std::string name;
  std::optional<uint64_t> used{};      // in all; none: nobody sums it up
  std::optional<uint64_t> limit{};     // in all; none: there is none
  std::optional<uint64_t> per_user{};  // of one user; none: there is none
  uint64_t of_operators = 0;           // of `limit`, for the service's owner and root alone
  std::string key{};                   // of the option that changes it; empty: there is none
  std::vector<User> users{};           // those who have any; ascending by uid
};

struct ServiceFacts {
  int64_t pid = 0;
  std::string version;
  std::string device;
  std::string kernels;  // "cpu", "cuda"
  std::string user;     // owner of the jobs that `jobs` does not name
  double uptime_s = 0;
  Bytes pool_made{};  // its size when the service started, which it can have at most
  std::optional<PolicyProcessFacts> policy_process{};  // none: the policy is one of the tree
  // Of the memory for what outlives workers; null: there is none.
  std::optional<RecoveryFacts> recovery{};
  std::vector<WorkerFacts> workers{};
  std::vector<JobFacts> jobs{};  // ascending by job
  // None: nothing of the kind can die, or be lost, and leave a service.
  std::optional<ServiceCounters> counters{};
  std::vector<LimitFacts> limits{};  // none: one process has all
};

}  // namespace laneway::wire

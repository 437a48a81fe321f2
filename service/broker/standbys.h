// Standbys: the workers that wait to take over, as far as the broker has them prepare: each gets
// the jobs and graphs that the active worker has, and says what it has made ready.
// What a standby was at when it crashed, or when it hung, is left out from then on, so a graph that
// no process survives preparing costs one standby and not all. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/broker/job_table.h"
#include "service/broker/outbox.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/wire/standby_messages.h"

namespace laneway::service {

class Standbys {
 public:
  // How far a standby is.
  struct Preparation {
    uint32_t jobs = 0;      // that are to be prepared
    uint32_t prepared = 0;  // of them, with all their graphs
  };

  // `table` must outlive the object.
  explicit Standbys(const JobTable& table) : table_(table) {}

  // ---- Standbys, by pid.
  // It is named all jobs that the active worker has.
  void connect(int32_t pid, Channel channel);
  // It is a standby no more, if it was one.
  void activated(int32_t pid);
  // A standby, or an activated worker, is dead. `status` is that of waitpid.
  void died(int32_t pid, int32_t status);
  // None of a process that prepares nothing.
  std::optional<Preparation> preparation(int32_t pid) const;

  // ---- What the active worker has now.
  void job_added(const JobEntry& job);
  void graph_added(const JobEntry& job, uint32_t number);
  void graph_dropped(JobId job, uint32_t number);
  void image_placed();
  void job_gone(JobId job);

  void add_to_poll(std::vector<pollfd>& entries) const;
  // All messages that are there now; what waited to be written.
  void serve();

 private:
  using Part = std::pair<JobId, uint32_t>;  // a graph of a job; 0: with the job itself
  struct Standby {
    Outbox out;  // not open: it hung up, and its end comes
    std::set<Part> told;
    std::deque<Part> asked;      // of them, not answered yet
    std::set<JobId> unprepared;  // of them, answered with no
  };

  void tell_job(Standby& standby, const JobEntry& job);
  void tell_graph(Standby& standby, const JobEntry& job, uint32_t number);
  template <class M>
  void send(Standby& standby, const M& message);
  // It is asked when it has taken everything before. The standby must stay where it is.
  void ask(Standby& standby, const Part& part);
  // Nothing when the part is gone; it is then not asked for any more.
  Result<std::optional<Outbox::Letter>> question(Standby& standby, const Part& part) const;
  static void note(Standby& standby, const Status& sent);
  static void read(Standby& standby);
  void leave_out(const Part& part);

  const JobTable& table_;
  std::map<int32_t, Standby> standbys_;
  std::map<int32_t, Part> under_way_;  // what a standby was at when it was activated, by pid
  std::set<Part> left_out_;
};

}  // namespace laneway::service

#include "service/broker/standbys.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "base/log.h"
#include "service/broker/link_files.h"
#include "service/transport/supervised.h"
#include "service/wire/codec.h"

namespace laneway::service {

template <class M>
void Standbys::send(Standby& standby, const M& message) {
  if (standby.out.is_open()) note(standby, standby.out.send(wire::encode(message)));
}

void Standbys::note(Standby& standby, const Status& sent) {
  if (sent) return;
  log_warning("a standby prepares nothing further: " + sent.error().message);
  standby.out.close();
}

void Standbys::ask(Standby& standby, const Part& part) {
  standby.asked.push_back(part);
  if (!standby.out.is_open()) return;
  note(standby, standby.out.send_later([this, &standby, part] { return question(standby, part); }));
}

Result<std::optional<Outbox::Letter>> Standbys::question(Standby& standby, const Part& part) const {
  const auto job = table_.all().find(part.first);
  const GraphEntry* graph = nullptr;
  if (job != table_.all().end()) {
    const auto found = job->second.graphs.find(part.second);
    if (found != job->second.graphs.end()) graph = &found->second;
  }
  if (graph == nullptr) {
    std::erase(standby.asked, part);
    return std::optional<Outbox::Letter>();
  }
  auto copied = copies({&graph->graph});
  if (!copied) return copied.error();
  Outbox::Letter letter{.bytes = {}, .fds = std::move(copied).value()};
  if (part.second == 0) {
    wire::to_standby::PrepareJob message;
    message.job = part.first.value();
    message.slots = job->second.record.spec.slots;
    letter.bytes = wire::encode(message);
  } else {
    wire::to_standby::PrepareGraph message;
    message.job = part.first.value();
    message.number = part.second;
    letter.bytes = wire::encode(message);
  }
  return std::optional(std::move(letter));
}

void Standbys::connect(int32_t pid, Channel channel) {
  Standby& standby = standbys_[pid];
  standby = Standby();
  standby.out.open(std::move(channel));
  for (const auto& [id, job] : table_.all()) {
    if (job.added && !job.closing) tell_job(standby, job);
  }
  send(standby, wire::to_standby::Settle{});
}

void Standbys::activated(int32_t pid) {
  const auto found = standbys_.find(pid);
  if (found == standbys_.end()) return;
  read(found->second);  // what it still said
  if (!found->second.asked.empty()) under_way_[pid] = found->second.asked.front();
  standbys_.erase(found);
}

void Standbys::leave_out(const Part& part) {
  left_out_.insert(part);
  log_warning("a standby came to its end while it prepared graph " + std::to_string(part.second) +
              " of job " + std::to_string(part.first.value()) + ": no other one prepares it");
}

void Standbys::died(int32_t pid, int32_t status) {
  const auto activated = under_way_.extract(pid);
  const bool hung = WIFEXITED(status) && WEXITSTATUS(status) == kExitPreparingHangs;
  if (!activated.empty() && hung) leave_out(activated.mapped());
  const auto found = standbys_.find(pid);
  if (found == standbys_.end()) return;
  read(found->second);  // what it still said
  // Whoever was killed from outside did not fail at what it did.
  const bool crashed = !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  if (crashed && !found->second.asked.empty()) leave_out(found->second.asked.front());
  standbys_.erase(found);
}

std::optional<Standbys::Preparation> Standbys::preparation(int32_t pid) const {
  const auto found = standbys_.find(pid);
  if (found == standbys_.end()) return std::nullopt;
  const Standby& standby = found->second;
  std::set<JobId> unready = standby.unprepared;
  for (const Part& part : standby.asked) unready.insert(part.first);
  Preparation preparation;
  for (const auto& [id, job] : table_.all()) {
    if (!job.added || job.closing) continue;
    ++preparation.jobs;
    if (standby.told.contains({id, 0}) && !unready.contains(id)) ++preparation.prepared;
  }
  return preparation;
}

void Standbys::tell_job(Standby& standby, const JobEntry& job) {
  const Part first{job.id(), 0};
  if (left_out_.contains(first)) return;
  if (standby.told.insert(first).second) ask(standby, first);
  for (const auto& [number, graph] : job.graphs) {
    if (number != 0 && graph.info) tell_graph(standby, job, number);
  }
}

void Standbys::tell_graph(Standby& standby, const JobEntry& job, uint32_t number) {
  const Part part{job.id(), number};
  if (left_out_.contains(part) || !standby.told.contains({job.id(), 0})) return;
  if (standby.told.insert(part).second) ask(standby, part);
}

void Standbys::job_added(const JobEntry& job) {
  for (auto& [pid, standby] : standbys_) tell_job(standby, job);
}

void Standbys::graph_added(const JobEntry& job, uint32_t number) {
  for (auto& [pid, standby] : standbys_) tell_graph(standby, job, number);
}

void Standbys::graph_dropped(JobId job, uint32_t number) {
  left_out_.erase({job, number});
  for (auto& [pid, standby] : standbys_) {
    if (standby.told.erase({job, number}) == 0) continue;
    wire::to_standby::ForgetGraph message;
    message.job = job.value();
    message.number = number;
    send(standby, message);
  }
}

void Standbys::image_placed() {
  for (auto& [pid, standby] : standbys_) send(standby, wire::to_standby::Settle{});
}

void Standbys::job_gone(JobId job) {
  const auto is_of_job = [job](const Part& part) { return part.first == job; };
  std::erase_if(left_out_, is_of_job);
  for (auto& [pid, standby] : standbys_) {
    standby.unprepared.erase(job);
    if (std::erase_if(standby.told, is_of_job) == 0) continue;
    wire::to_standby::ForgetJob message;
    message.job = job.value();
    send(standby, message);
  }
}

void Standbys::add_to_poll(std::vector<pollfd>& entries) const {
  for (const auto& [pid, standby] : standbys_) {
    if (!standby.out.is_open()) continue;
    const Channel& channel = standby.out.channel();
    const int events = POLLIN | (channel.wants_write() ? POLLOUT : 0);
    entries.push_back({channel.descriptor(), static_cast<short>(events), 0});
  }
}

void Standbys::serve() {
  for (auto& [pid, standby] : standbys_) {
    if (standby.out.is_open()) (void)standby.out.flush();  // its end shows when it is read
    read(standby);
  }
}

void Standbys::read(Standby& standby) {
  while (standby.out.is_open()) {
    auto frame = standby.out.channel().receive();
    if (frame && !frame.value()) return;
    auto message = frame ? wire::decode<wire::from_standby::Any>(frame.value()->bytes)
                         : Result<wire::from_standby::Any>(frame.error());
    if (!message) {
      standby.out.close();  // one that is gone is reported dead
      return;
    }
    const auto& done = std::get<wire::from_standby::Prepared>(message.value());
    const Part part{JobId(done.job), done.number};
    // Answers come in the order of the questions.
    if (standby.asked.empty() || standby.asked.front() != part) {
      log_warning("a standby answered what it was not asked");
      standby.out.close();
      return;
    }
    standby.asked.pop_front();
    if (!done.ok && standby.told.contains(part)) standby.unprepared.insert(part.first);
  }
}

}  // namespace laneway::service

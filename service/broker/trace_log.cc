#include "service/broker/trace_log.h"

#include <unistd.h>

#include <utility>

#include "base/version.h"

namespace laneway::service {

namespace trace = wire::trace;

Result<std::unique_ptr<TraceLog>> TraceLog::open(const std::string& path,
                                                 const wire::ServiceConfig& config, uint64_t epoch,
                                                 const Clock& clock) {
  auto writer = TraceWriter::append(path);
  if (!writer) return writer.error();
  std::unique_ptr<TraceLog> log(new TraceLog(std::move(writer).value(), clock));
  trace::Started started;
  started.pid = ::getpid();
  started.epoch = epoch;
  started.pool_bytes = config.pool_bytes;
  started.reserve_bytes = config.reserve_bytes;
  started.lanes = config.lanes;
  started.policy = config.policy;
  started.version = version();
  log->note(std::move(started));
  return log;
}

void TraceLog::note(TimePoint now, trace::Entry entry) {
  writer_->note(now, {.time_ns = now.ns(), .entry = std::move(entry)});
}

void TraceLog::began(const lanes::SchedulerConfig& config, const std::string& policy) {
  note(trace::CoreBegan{config, policy});
}

void TraceLog::handled(TimePoint now, std::span<const lanes::Event> events,
                       std::span<const lanes::Action> actions) {
  note(now, trace::Handled{.events = static_cast<uint32_t>(events.size()),
                           .actions = static_cast<uint32_t>(actions.size())});
  for (const lanes::Event& event : events) note(now, trace::Heard{event});
  for (const lanes::Action& action : actions) note(now, trace::Decided{action});
}

void TraceLog::saw(const wire::from_worker::Iterations& message) {
  lost_iterations_ += message.lost;
  if (message.lost > 0) note(trace::Lost{.records = 0, .iterations = message.lost});
  const TimePoint now = clock_.now();
  for (const wire::IterationNote& one : message.notes) {
    writer_->note(now, {.time_ns = one.start_ns, .entry = trace::Iterated{one}});
  }
}

void TraceLog::policy_set(const std::string& policy) { note(trace::PolicySet{policy}); }

bool TraceLog::ended() {
  note(trace::Ended{});
  writer_->flush();
  return !writer_->stopped();
}

}  // namespace laneway::service

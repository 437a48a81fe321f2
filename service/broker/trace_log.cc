#include "service/broker/trace_log.h"

#include <unistd.h>

#include <utility>

#include "base/version.h"

namespace laneway::service {

namespace trace = wire::trace;

Result<std::unique_ptr<TraceLog>> TraceLog::open(const wire::supervisor_to_broker::Start& start,
                                                 const Clock& clock) {
  auto writer = TraceWriter::append(start.config.trace_file);
  if (!writer) return writer.error();
  std::unique_ptr<TraceLog> log(new TraceLog(std::move(writer).value(), clock));
  trace::Started started;
  started.pid = ::getpid();
  started.epoch = start.epoch;
  started.pool_bytes = start.config.pool_bytes;
  started.reserve_bytes = start.config.reserve_bytes;
  started.lanes = start.config.lanes;
  started.policy = start.config.policy;
  started.version = version();
  log->note(std::move(started));
  return log;
}

void TraceLog::note(trace::Entry entry) {
  const TimePoint now = clock_.now();
  writer_->note(now, {.time_ns = now.ns(), .entry = std::move(entry)});
}

void TraceLog::saw(TimePoint now, const lanes::Event& event) {
  writer_->note(now, {.time_ns = now.ns(), .entry = trace::Heard{event}});
}

void TraceLog::saw(TimePoint now, const lanes::Action& action) {
  writer_->note(now, {.time_ns = now.ns(), .entry = trace::Decided{action}});
}

void TraceLog::saw(const wire::from_worker::Iterations& message) {
  if (message.lost > 0) note(trace::Lost{.records = 0, .iterations = message.lost});
  const TimePoint now = clock_.now();
  for (const wire::IterationNote& one : message.notes) {
    writer_->note(now, {.time_ns = one.start_ns, .entry = trace::Iterated{one}});
  }
}

void TraceLog::policy_set(const std::string& policy) { note(trace::PolicySet{policy}); }

void TraceLog::ended() { note(trace::Ended{}); }

}  // namespace laneway::service

// TraceLog: the broker's trace: its cores, what they take and decide, and what the worker reports
// of iterations, noted as it happens and written when the broker has nothing better to do
// (service/trace). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "service/broker/broker_core.h"
#include "service/trace/trace_writer.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class TraceLog final : public SchedulersObserver {
 public:
  // The file was begun (begin_trace_file); `clock` outlives the log. What waits is written at the
  // log's end, too.
  static Result<std::unique_ptr<TraceLog>> open(const std::string& path,
                                                const wire::ServiceConfig& config, uint64_t epoch,
                                                const Clock& clock);

  void began(const lanes::SchedulerConfig& config, const std::string& policy) override;
  void handled(TimePoint now, std::span<const lanes::Event> events,
               std::span<const lanes::Action> actions) override;
  void policy_set(const std::string& policy) override;
  void saw(const wire::from_worker::Iterations& message);
  // It was asked to end: all is written now. False when not all of it could be.
  bool ended();

  // Records, and iterations that the worker could not report, that are missing in it.
  uint64_t lost() const { return lost_iterations_ + writer_->lost(); }

  TimePoint next_flush() const { return writer_->next_flush(); }
  void flush_if_due() { writer_->flush_if_due(clock_.now()); }

 private:
  TraceLog(std::unique_ptr<TraceWriter> writer, const Clock& clock)
      : writer_(std::move(writer)), clock_(clock) {}
  void note(TimePoint now, wire::trace::Entry entry);
  void note(wire::trace::Entry entry) { note(clock_.now(), std::move(entry)); }

  const std::unique_ptr<TraceWriter> writer_;
  const Clock& clock_;
  uint64_t lost_iterations_ = 0;
};

}  // namespace laneway::service

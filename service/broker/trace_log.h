// TraceLog: the broker's trace: what its core takes and decides, and what the worker reports of
// iterations, noted as it happens and written when the broker has nothing better to do
// (service/trace). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "service/broker/broker_core.h"
#include "service/trace/trace_writer.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class TraceLog final : public CoreObserver {
 public:
  // The file is one that lanewayd began; `clock` outlives the log. What waits is written at the
  // log's end, too.
  static Result<std::unique_ptr<TraceLog>> open(const wire::supervisor_to_broker::Start& start,
                                                const Clock& clock);

  void saw(TimePoint now, const lanes::Event& event) override;
  void saw(TimePoint now, const lanes::Action& action) override;
  void saw(const wire::from_worker::Iterations& message);
  void policy_set(const std::string& policy);
  void ended();

  TimePoint next_flush() const { return writer_->next_flush(); }
  void flush_if_due() { writer_->flush_if_due(clock_.now()); }

 private:
  TraceLog(std::unique_ptr<TraceWriter> writer, const Clock& clock)
      : writer_(std::move(writer)), clock_(clock) {}
  void note(wire::trace::Entry entry);

  const std::unique_ptr<TraceWriter> writer_;
  const Clock& clock_;
};

}  // namespace laneway::service

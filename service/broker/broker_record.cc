// Broker: what is recorded of it, from the start (--trace) or from a moment on.
#include <utility>

#include "base/log.h"
#include "service/broker/broker.h"
#include "service/trace/trace_file.h"

namespace laneway::service {

void Broker::open_trace() {
  if (config_.trace_file.empty()) return;
  auto log = TraceLog::open(config_.trace_file, config_, epoch_, clock_);
  // lanewayd could write to it: it was taken away since, and the service matters more.
  if (!log) return log_warning("no trace is written: " + log.error().message);
  trace_ = std::move(log).value();
  registry_.set_trace(trace_.get());
}

Status Broker::begin_record(SessionId session, const std::string& file) {
  if (recording_ && recording_->session == session && recording_->file == file) return {};
  if (trace_ != nullptr) {
    const std::string& there = recording_ ? recording_->file : config_.trace_file;
    return Error{ErrorCode::refused,
                 "this service is recorded already, in '" + there + "': " +
                     (recording_ ? "try again when that has ended" : "that is a record as well")};
  }
  if (!file.starts_with('/')) {
    return Error{ErrorCode::invalid_argument,
                 "'" + file + "' is no absolute path, and the service has a folder of its own"};
  }
  auto begun = begin_trace_file(file, clock_);
  if (!begun) return begun.error();
  auto log = TraceLog::open(file, config_, epoch_, clock_);
  if (!log) return log.error();
  trace_ = std::move(log).value();
  recording_ = Recording{session, file, std::move(begun).value()};
  registry_.set_trace(trace_.get());
  core_->set_observer(trace_.get());
  // The record begins with all that the core goes on from.
  registry_.begin_core_anew();
  return {};
}

Status Broker::end_record() {
  if (!recording_) {
    return Error{
        ErrorCode::refused,
        "nothing is recorded that could be ended; a record ends with the broker that writes "
        "it, and what there was of it is in its file"};
  }
  core_->set_observer(nullptr);
  registry_.set_trace(nullptr);
  const bool whole = trace_->ended();
  counters_.lost(trace_->lost());
  const std::string file = recording_->file;
  trace_.reset();
  recording_.reset();
  if (whole) return {};
  return Error{ErrorCode::failed, "not all of the record is in '" + file +
                                      "': it could not be written; the service's log says why"};
}

}  // namespace laneway::service

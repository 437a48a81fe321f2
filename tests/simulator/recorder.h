// Recorder: what a core is told and decides, as the records that a service writes of it, and as the
// file of them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "lanes/core/core_loop.h"
#include "service/trace/trace_file.h"
#include "service/trace/trace_writer.h"
#include "service/wire/trace_record.h"

namespace laneway::simulator {

class Recorder final : public lanes::CoreObserver {
 public:
  void note(TimePoint now, wire::trace::Entry entry) {
    records.push_back({.time_ns = now.ns(), .entry = std::move(entry)});
  }
  void handled(TimePoint now, std::span<const lanes::Event> events,
               std::span<const lanes::Action> actions) override {
    note(now, wire::trace::Handled{static_cast<uint32_t>(events.size()),
                                   static_cast<uint32_t>(actions.size())});
    for (const lanes::Event& event : events) note(now, wire::trace::Heard{event});
    for (const lanes::Action& action : actions) note(now, wire::trace::Decided{action});
    last = now;
  }
  void policy_set(const std::string& policy) override {
    note(last, wire::trace::PolicySet{policy});
  }

  void write(const std::string& path) const {
    ManualClock clock;
    LW_CHECK(service::begin_trace_file(path, clock).ok(), path);
    auto writer = service::TraceWriter::append(path);
    LW_CHECK(writer.ok(), path);
    for (const wire::trace::Record& record : records) {
      writer.value()->note(TimePoint(record.time_ns), record);
      writer.value()->flush_if_due(TimePoint(record.time_ns));
    }
  }

  std::vector<wire::trace::Record> records;
  TimePoint last;
};

}  // namespace laneway::simulator

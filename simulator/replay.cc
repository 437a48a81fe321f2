#include "simulator/replay.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "policies/registry.h"
#include "service/trace/trace_reader.h"
#include "service/trace/trace_text.h"
#include "service/wire/codec_trace.h"

namespace laneway::simulator {

namespace trace = wire::trace;

namespace {

// Of a core that can be made; else what is wrong.
std::string wrong_with(const lanes::SchedulerConfig& config) {
  const auto is_size = [](Bytes size) {
    return size >= Bytes() && size <= Bytes(int64_t{1} << 60);
  };
  const int64_t alignment = config.alignment;
  if (alignment < 1 || alignment > gib(1).count() || (alignment & (alignment - 1)) != 0) {
    return "alignment " + std::to_string(alignment) + ", which is no power of two up to 1 GiB";
  }
  if (!is_size(config.capacity) || !is_size(config.wanted_capacity) || !is_size(config.store) ||
      !is_size(config.spill) || !is_size(config.reserve) || config.reserve >= config.capacity) {
    return "a size below zero or above 2^60 bytes, or a reserve that leaves nothing of the pool";
  }
  if (config.max_lanes < 1 || config.max_lanes > limits::kMaxLanes) {
    return std::to_string(config.max_lanes) + " lanes; there are 1 to " +
           std::to_string(limits::kMaxLanes);
  }
  if (config.budget.iterations == 0 && config.budget.slice <= Duration()) {
    return "turns without a bound";
  }
  if (config.check_every == 0) return "a state that is never checked";
  return "";
}

std::vector<std::byte> bytes_of(const lanes::Action& action) {
  std::vector<std::byte> bytes;
  wire::encode_record({.time_ns = 0, .entry = trace::Decided{action}}, bytes);
  return bytes;
}

std::string counted(uint64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

}  // namespace

std::string Replay::time() const {
  return service::time_text(service::ns_between(began_ns_, now_ns_));
}

Error Replay::senseless(const std::string& what) const {
  return Error{ErrorCode::invalid_argument, "at " + time() + " s " + what};
}

Error Replay::differs(size_t action, const std::string& recorded,
                      const std::string& decided) const {
  std::string what = "at " + time() + " s, core " + std::to_string(counts_.cores) + ", call " +
                     std::to_string(counts_.instants + 1) + ", decision " +
                     std::to_string(action + 1) + " differs: recorded \"" + recorded +
                     "\", now \"" + decided + "\"";
  if (recorded == decided) what += ", of which other numbers differ";
  return Error{ErrorCode::failed, what};
}

Status Replay::add(const trace::Record& record) {
  now_ns_ = record.time_ns;
  return std::visit([this](const auto& entry) { return on(entry); }, record.entry);
}

Status Replay::finish() const {
  if (call_.is_whole()) return {};
  return senseless(
      "the record ends within a call of the core: " + std::to_string(call_.events.size()) + " of " +
      std::to_string(call_.announced.events) + " events and " +
      std::to_string(call_.actions.size()) + " of " + std::to_string(call_.announced.actions) +
      " decisions are there");
}

// A broker that was killed may have left half a call behind.
Status Replay::on(const trace::Started& /*entry*/) {
  ++counts_.brokers;
  call_ = {};
  core_.reset();
  return {};
}

Status Replay::on(const trace::CoreBegan& entry) {
  if (!call_.is_whole()) return finish();
  if (const std::string wrong = wrong_with(entry.config); !wrong.empty()) {
    return senseless("a core began with " + wrong);
  }
  auto policy = policies::make_policy(entry.policy);
  if (!policy) return senseless("a core began with a policy: " + policy.error().message);
  core_ = std::make_unique<lanes::Scheduler>(entry.config, std::move(policy).value());
  gap_ = false;
  ++counts_.cores;
  return {};
}

Status Replay::on(const trace::Handled& entry) {
  if (!call_.is_whole()) return finish();
  if (core_ == nullptr && !gap_) return senseless("a core was called before one began");
  if (entry.events == 0) return senseless("a core was called without an event");
  call_ = {.time_ns = now_ns_, .announced = entry, .events = {}, .actions = {}};
  return {};
}

Status Replay::on(const trace::Heard& entry) {
  names_.on_event(entry.event);
  if (call_.events.size() == call_.announced.events) {
    return senseless("a core heard an event in no call");
  }
  call_.events.push_back(entry.event);
  return call_.is_whole() ? repeat() : Status();
}

Status Replay::on(const trace::Decided& entry) {
  if (call_.events.size() < call_.announced.events ||
      call_.actions.size() == call_.announced.actions) {
    return senseless("a core decided something in no call");
  }
  call_.actions.push_back(entry.action);
  return call_.is_whole() ? repeat() : Status();
}

Status Replay::on(const trace::PolicySet& entry) {
  if (!call_.is_whole()) return finish();
  if (core_ == nullptr) return gap_ ? Status() : senseless("a policy was set before a core began");
  auto policy = policies::make_policy(entry.policy);
  if (!policy) return senseless("a policy was set: " + policy.error().message);
  core_->set_policy(std::move(policy).value());
  ++counts_.policies;
  return {};
}

Status Replay::on(const trace::Lost& entry) {
  counts_.lost += entry.records;
  if (entry.records == 0) return {};
  core_.reset();
  gap_ = true;
  call_ = {};
  return {};
}

Status Replay::on(const trace::Ended& /*entry*/) {
  counts_.ended = true;
  return finish();
}

Status Replay::repeat() {
  const Call call = std::exchange(call_, {});
  if (core_ == nullptr) {
    ++counts_.skipped;
    return {};
  }
  const std::vector<lanes::Action>& actions = core_->handle(TimePoint(call.time_ns), call.events);
  const size_t most = std::max(actions.size(), call.actions.size());
  for (size_t i = 0; i < most; ++i) {
    const auto text = [&](std::span<const lanes::Action> all) {
      return i < all.size() ? service::entry_text(trace::Decided{all[i]}, names_)
                            : std::string("nothing more");
    };
    const bool equal = i < actions.size() && i < call.actions.size() &&
                       bytes_of(actions[i]) == bytes_of(call.actions[i]);
    if (!equal) return differs(i, text(call.actions), text(actions));
  }
  ++counts_.instants;
  counts_.events += call.events.size();
  counts_.actions += actions.size();
  return {};
}

Result<ReplayCounts> replay(const std::string& path) {
  auto reader = service::TraceReader::open(path);
  if (!reader) return reader.error();
  Replay replay(reader.value().header().steady_ns);
  while (true) {
    const auto record = reader.value().next();
    if (!record) {
      return Error{record.error().code,
                   record.error().message + "; before it: " + replay_text(replay.counts())};
    }
    const Status status = record.value() ? replay.add(*record.value()) : replay.finish();
    if (!status) {
      return Error{status.error().code,
                   "'" + path + "' at offset " + std::to_string(reader.value().offset()) + ": " +
                       status.error().message + "; before it: " + replay_text(replay.counts())};
    }
    if (!record.value()) return replay.counts();
  }
}

std::string replay_text(const ReplayCounts& counts) {
  std::string text = counted(counts.instants, "call", "calls") + " of " +
                     counted(counts.cores, "core", "cores") + " in " +
                     counted(counts.brokers, "broker", "brokers") + ", " +
                     counted(counts.events, "event", "events") + ", " +
                     counted(counts.policies, "change", "changes") + " of policy: all " +
                     counted(counts.actions, "decision", "decisions") + " equal";
  if (counts.lost > 0) {
    text += "; " + counted(counts.lost, "record was", "records were") +
            " lost for want of room, and with them " + counted(counts.skipped, "call", "calls") +
            " that could not be repeated";
  }
  return text;
}

}  // namespace laneway::simulator

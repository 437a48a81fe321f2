#include "service/worker/run/plan_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace laneway::service {
namespace {

constexpr uint64_t kMagic = 0x6c6e7770'6c616e31;  // "lnwplan1": the layout's version is in it

struct Header {
  uint64_t magic = kMagic;
  uint64_t graph_key = 0;
  uint64_t nodes = 0;
  int64_t alignment = 0;
  int64_t peak = 0;
  double plan_s = 0;
  uint32_t allocations = 0;
  uint32_t frees = 0;
  uint32_t marks = 0;
  uint32_t unused = 0;
};

struct Step {
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint64_t frees_before = 0;
};

static_assert(std::has_unique_object_representations_v<Step>);
static_assert(std::has_unique_object_representations_v<memory::TapePosition>);

// Behind the header: steps, frees, marks.
class Writer {
 public:
  template <class T>
  void put(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // False, and nothing is read, when there are fewer.
  template <class T>
  bool get(std::span<T> values) {
    if (bytes_.size() < values.size_bytes()) return false;
    if (!values.empty()) std::memcpy(values.data(), bytes_.data(), values.size_bytes());
    bytes_ = bytes_.subspan(values.size_bytes());
    return true;
  }
  // Whether so many values could be there: asked before memory is taken for them.
  template <class T>
  bool has(uint32_t count) const {
    return count <= bytes_.size() / sizeof(T);
  }
  template <class T>
  bool get(std::vector<T>& values, uint32_t count) {
    if (!has<T>(count)) return false;
    values.resize(count);
    return get(std::span<T>(values));
  }

 private:
  std::span<const std::byte> bytes_;
};

// One position for the beginning of each node and one for the end, none behind the tape's end.
bool are_marks_of(const std::vector<memory::TapePosition>& marks, size_t nodes,
                  const memory::AllocationTape& tape) {
  if (marks.empty()) return true;
  const auto is_later = [](const memory::TapePosition& a, const memory::TapePosition& b) {
    return a.allocations > b.allocations || a.frees > b.frees;
  };
  return marks.size() == nodes + 1 &&
         std::adjacent_find(marks.begin(), marks.end(), is_later) == marks.end() &&
         marks.back().allocations <= tape.allocations.size() &&
         marks.back().frees <= tape.frees.size();
}

}  // namespace

std::vector<std::byte> encode_plan(const PlanSubject& subject, const PlanRecord& record) {
  const memory::PlannedTape& planned = *record.planned;
  Header header;
  header.graph_key = subject.graph_key;
  header.nodes = subject.nodes;
  header.alignment = planned.plan.alignment;
  header.peak = planned.plan.peak.count();
  header.plan_s = record.plan_s;
  header.allocations = static_cast<uint32_t>(planned.tape.allocations.size());
  header.frees = static_cast<uint32_t>(planned.tape.frees.size());
  header.marks = static_cast<uint32_t>(record.marks.size());
  std::vector<Step> steps;
  steps.reserve(planned.tape.allocations.size());
  for (size_t i = 0; i < planned.tape.allocations.size(); ++i) {
    const memory::TapeAllocation& allocation = planned.tape.allocations[i];
    steps.push_back({allocation.bytes, planned.plan.offsets[i], allocation.frees_before});
  }
  Writer writer;
  writer.put(std::span<const Header>(&header, 1));
  writer.put(std::span<const Step>(steps));
  writer.put(std::span<const uint32_t>(planned.tape.frees));
  writer.put(std::span<const memory::TapePosition>(record.marks));
  return writer.take();
}

std::optional<PlanRecord> decode_plan(const PlanSubject& subject,
                                      std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Header header;
  if (!reader.get(std::span<Header>(&header, 1)) || header.magic != kMagic ||
      header.graph_key != subject.graph_key || header.nodes != subject.nodes ||
      header.alignment != subject.alignment || header.peak < 0) {
    return std::nullopt;
  }
  std::vector<Step> steps;
  memory::AllocationTape tape;
  PlanRecord record;
  if (!reader.get(steps, header.allocations) || !reader.get(tape.frees, header.frees) ||
      !reader.get(record.marks, header.marks)) {
    return std::nullopt;
  }
  memory::Plan plan{.offsets = {}, .peak = Bytes(header.peak), .alignment = header.alignment};
  for (const Step& step : steps) {
    if (step.frees_before > tape.frees.size()) return std::nullopt;
    tape.allocations.push_back({step.bytes, static_cast<uint32_t>(step.frees_before)});
    plan.offsets.push_back(step.offset);
  }
  if (!memory::is_plan_of(tape, plan)) return std::nullopt;
  if (!are_marks_of(record.marks, subject.nodes, tape)) record.marks.clear();
  record.plan_s = std::isfinite(header.plan_s) ? std::max(header.plan_s, 0.0) : 0;
  record.planned = memory::make_planned_tape(std::move(tape), std::move(plan));
  return record;
}

}  // namespace laneway::service

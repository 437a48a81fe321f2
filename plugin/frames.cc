#include "plugin/frames.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"

namespace laneway::plugin {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

constexpr size_t kLengthBytes = sizeof(uint32_t);
// Times in seconds become whole nanoseconds far from overflow.
constexpr double kLongestSeconds = 9e9;

// Writes one frame, whose length is known at its end.
class FrameWriter {
 public:
  FrameWriter(std::vector<std::byte>& bytes, FrameType type) : bytes_(bytes), begin_(bytes.size()) {
    number(uint32_t{0});
    number(static_cast<uint8_t>(type));
  }
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;
  ~FrameWriter() {
    const auto length = static_cast<uint32_t>(bytes_.size() - begin_ - kLengthBytes);
    LW_CHECK(length <= kMaxFrameBytes, "what a policy is told has its limits elsewhere");
    std::memcpy(bytes_.data() + begin_, &length, kLengthBytes);
  }

  template <class Number>
  void number(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(value));
  }
  void text(std::string_view text) {
    number(static_cast<uint16_t>(text.size()));
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), from, from + text.size());
  }

 private:
  std::vector<std::byte>& bytes_;
  size_t begin_;
};

Error nonsense(const std::string& what) { return {ErrorCode::invalid_argument, what}; }

// The fields of one frame; zeros where it is too short, which `whole` tells.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    Number value{};
    if (bytes_.size() < sizeof(value)) {
      is_short_ = true;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    return value;
  }
  Status whole(const char* name) const {
    if (is_short_) return nonsense(std::string("its ") + name + " is too short");
    if (bytes_.empty()) return {};
    return nonsense(std::string("its ") + name + " has " + std::to_string(bytes_.size()) +
                    " bytes too many");
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_short_ = false;
};

Result<std::optional<Said>> rank_of(Fields fields) {
  lanes::Advice said;
  said.job = JobId(fields.number<uint64_t>());
  said.advice.busy = Duration(fields.number<int64_t>());
  said.advice.waiting = Duration(fields.number<int64_t>());
  said.advice.value = fields.number<double>();
  said.advice.per_busy_s = fields.number<double>();
  said.advice.per_wait_s = fields.number<double>();
  const auto slice_s = fields.number<double>();
  if (Status whole = fields.whole("Rank"); !whole) return whole.error();
  const std::string whose = "its rank of job " + std::to_string(said.job.value());
  const std::pair<const char*, double> numbers[] = {{"value", said.advice.value},
                                                    {"per_busy_s", said.advice.per_busy_s},
                                                    {"per_wait_s", said.advice.per_wait_s},
                                                    {"slice_s", slice_s}};
  for (const auto& [name, number] : numbers) {
    if (std::isfinite(number)) continue;
    return nonsense(whose + " has " + name + " " + number_text(number) + ": give a finite number");
  }
  if (slice_s < 0 || slice_s > kLongestSeconds) {
    return nonsense(whose + " has slice_s " + number_text(slice_s) +
                    ": give seconds above 0, or none");
  }
  if (said.advice.busy < Duration() || said.advice.waiting < Duration()) {
    return nonsense(whose + " is of times below 0: repeat those of the job's facts");
  }
  // A turn of less than a nanosecond would be none.
  if (slice_s > 0) said.advice.slice = Duration(std::max<int64_t>(std::llround(slice_s * 1e9), 1));
  return std::optional<Said>(said);
}

Result<std::optional<Said>> wake_of(Fields fields) {
  const auto is_there = fields.number<uint8_t>();
  const auto time_s = fields.number<double>();
  if (Status whole = fields.whole("WakeAt"); !whole) return whole.error();
  WakeAt wake;
  if (is_there == 0) return std::optional<Said>(wake);
  if (!std::isfinite(time_s) || time_s < 0 || time_s > kLongestSeconds) {
    return nonsense("it wants to be woken at " + number_text(time_s) +
                    " s: give a time of the clock of `now`, or none");
  }
  wake.time = TimePoint(std::llround(time_s * 1e9));
  return std::optional<Said>(wake);
}

Result<std::optional<Said>> said_in(std::span<const std::byte> frame) {
  Fields fields(frame);
  const auto type = fields.number<uint8_t>();
  switch (static_cast<FrameType>(type)) {
    case FrameType::said_hello: {
      const SaidHello hello{fields.number<uint32_t>()};
      if (Status whole = fields.whole("Hello"); !whole) return whole.error();
      return std::optional<Said>(hello);
    }
    case FrameType::said_rank: return rank_of(fields);
    case FrameType::said_wake_at: return wake_of(fields);
    case FrameType::said_done: {
      const Done done{fields.number<uint64_t>()};
      if (Status whole = fields.whole("Done"); !whole) return whole.error();
      return std::optional<Said>(done);
    }
    default: break;
  }
  return nonsense("it wrote a frame of type " + std::to_string(type) +
                  " to descriptor 3, which is none of a policy's: leave descriptor 3 to "
                  "laneway.policy or laneway_policy.hpp");
}

}  // namespace

void add_hello(std::vector<std::byte>& bytes, uint64_t seed, const std::string& options) {
  FrameWriter frame(bytes, FrameType::hello);
  frame.number(kVersion);
  frame.number(seed);
  frame.text(options);
}

void add_job(std::vector<std::byte>& bytes, const lanes::JobFacts& facts, const std::string& user) {
  const JobOptions& options = facts.options;
  FrameWriter frame(bytes, FrameType::job);
  frame.number(facts.job.value());
  frame.number(facts.arrival);
  frame.text(options.name);
  frame.text(user);
  frame.text(job_class_name(options.job_class));
  frame.text(lanes::job_state_name(facts.state));
  frame.number(options.priority);
  frame.number(options.weight);
  frame.number(options.total_iterations);
  frame.number(options.deadline.ns());
  frame.number(facts.iterations);
  frame.number(facts.offered_at.ns());
  frame.number(facts.busy.ns());
  frame.number(facts.iteration.ns());
  frame.number(facts.remaining.ns());
  frame.number(facts.waiting.ns());
  frame.number(facts.persistent.count());
  frame.number(facts.ephemeral.count());
  frame.number(facts.lane.value());
}

void add_gone(std::vector<std::byte>& bytes, JobId job) {
  FrameWriter frame(bytes, FrameType::gone);
  frame.number(job.value());
}

void add_instant(std::vector<std::byte>& bytes, TimePoint now, uint64_t number) {
  FrameWriter frame(bytes, FrameType::instant);
  frame.number(now.ns());
  frame.number(number);
}

void FrameReader::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Said>> FrameReader::next() {
  const std::span<const std::byte> left = std::span(bytes_).subspan(at_);
  uint32_t length = 0;
  if (left.size() < kLengthBytes) return std::optional<Said>();
  std::memcpy(&length, left.data(), kLengthBytes);
  if (length == 0 || length > kMaxFrameBytes) {
    return nonsense("it wrote a frame of " + std::to_string(length) +
                    " bytes to descriptor 3; they have 1 to " + std::to_string(kMaxFrameBytes) +
                    ": leave descriptor 3 to laneway.policy or laneway_policy.hpp");
  }
  if (left.size() < kLengthBytes + length) return std::optional<Said>();
  at_ += kLengthBytes + length;
  return said_in(left.subspan(kLengthBytes, length));
}

}  // namespace laneway::plugin

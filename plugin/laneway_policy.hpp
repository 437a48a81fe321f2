// laneway_policy.hpp: a scheduling policy of your own in C++20, as a program of its own; this
// header alone is needed.
//
//   class Latest : public laneway::policy::Policy {
//    public:
//     explicit Latest(const laneway::policy::Options&) {}
//     laneway::policy::Rank rank(const laneway::policy::Job& job, double) override {
//       return -static_cast<double>(job.arrival);  // the lowest goes first
//     }
//   };
//   int main() { return laneway::policy::run<Latest>(); }
//
// `laneway simulate --trace FILE --policy ./latest` runs it. The core never waits for the program:
// it is told what changed, and what it says counts from then on. One thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace laneway::policy {

// What is known of a job. Times are in seconds; `offered_s` is on the clock of `now`.
struct Job {
  uint64_t id = 0;
  uint64_t arrival = 0;  // 1, 2, 3, … in the order in which jobs came
  double offered_s = 0;
  std::string name;
  std::string user;       // empty: not known
  std::string job_class;  // "training", "inference" or "best_effort"
  int32_t priority = 0;
  double weight = 1;
  std::optional<double> deadline_s;  // after it was offered
  std::optional<uint64_t> total_iterations;
  uint64_t iterations = 0;            // done so far
  double busy_s = 0;                  // device time that it had
  double iteration_s = 0;             // of one: measured, else the client's estimate, else 0
  std::optional<double> remaining_s;  // what is left of the total, by that
  double waiting_s = 0;               // for how long it has waited now, for a turn or to get in
  int64_t persistent_bytes = 0;
  int64_t ephemeral_bytes = 0;
  std::optional<uint64_t> lane;
  std::string state;  // as `laneway jobs` shows it
  int64_t busy_ns = 0;
  int64_t waiting_ns = 0;
};

// Where a job stands: the lowest value goes first, equal ones by arrival. From the moment on that
// rank() was asked about it changes by itself: by `per_busy_s` with each second of device time that
// the job gets, and by `per_wait_s` with each second that it waits. While others wait its turns end
// after `slice_s`; nothing: when somebody goes before it.
struct Rank {
  Rank(double first) : value(first) {}  // NOLINT(google-explicit-constructor): a number is a rank
  double value;
  double per_busy_s = 0;
  double per_wait_s = 0;
  std::optional<double> slice_s;
};

// What the text of the policy said, ./mine:key=value, but for the keys that Laneway knows itself
// (age, age_s, reserve_s, share); and the seed of a simulation.
struct Options {
  std::map<std::string, std::string> values;
  uint64_t seed = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Asked again whenever something of the job has changed. Must say finite numbers.
  virtual Rank rank(const Job& job, double now) = 0;
  // The job, as it was known last, is over.
  virtual void gone(const Job& /*job*/) {}
  // When all jobs are to be ranked again though nothing has happened to them: a time later than
  // `now`. Asked after each batch of changes; the last answer counts.
  virtual std::optional<double> wakes_at(double /*now*/) { return std::nullopt; }
};

namespace detail {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

// As plugin/frames.h has them.
inline constexpr uint32_t kVersion = 1;
inline constexpr int kDescriptor = 3;
inline constexpr uint8_t kHello = 1, kJob = 2, kGone = 3, kInstant = 4;
inline constexpr uint8_t kSaidHello = 129, kSaidRank = 130, kSaidWakeAt = 131, kSaidDone = 132;
inline constexpr size_t kLengthBytes = sizeof(uint32_t);

class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  double seconds() { return static_cast<double>(number<int64_t>()) * 1e-9; }
  std::string text() { return std::string(take(number<uint16_t>())); }

 private:
  std::string_view take(size_t size) {
    if (bytes_.size() < size)
      throw std::runtime_error("the service sent a frame that is too short");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes_;
};

// The frames of an answer.
class Answer {
 public:
  template <class... Numbers>
  void frame(uint8_t type, Numbers... numbers) {
    put(static_cast<uint32_t>(sizeof(type) + (sizeof(numbers) + ... + 0)));
    put(type);
    (put(numbers), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class Number>
  void put(Number number) {
    std::array<char, sizeof(Number)> bytes{};
    std::memcpy(bytes.data(), &number, sizeof(number));
    bytes_.append(bytes.data(), bytes.size());
  }
  std::string bytes_;
};

inline Job job_of(Fields fields) {
  Job job;
  job.id = fields.number<uint64_t>();
  job.arrival = fields.number<uint64_t>();
  job.name = fields.text();
  job.user = fields.text();
  job.job_class = fields.text();
  job.state = fields.text();
  job.priority = fields.number<int32_t>();
  job.weight = fields.number<double>();
  if (const auto total = fields.number<uint64_t>(); total > 0) job.total_iterations = total;
  if (const double deadline = fields.seconds(); deadline > 0) job.deadline_s = deadline;
  job.iterations = fields.number<uint64_t>();
  job.offered_s = fields.seconds();
  job.busy_ns = fields.number<int64_t>();
  job.busy_s = static_cast<double>(job.busy_ns) * 1e-9;
  job.iteration_s = fields.seconds();
  if (const double remaining = fields.seconds(); remaining >= 0) job.remaining_s = remaining;
  job.waiting_ns = fields.number<int64_t>();
  job.waiting_s = static_cast<double>(job.waiting_ns) * 1e-9;
  job.persistent_bytes = fields.number<int64_t>();
  job.ephemeral_bytes = fields.number<int64_t>();
  if (const auto lane = fields.number<uint64_t>(); lane > 0) job.lane = lane;
  return job;
}

inline void add_rank(Answer& answer, const Job& job, const Rank& rank) {
  const double slice_s = rank.slice_s.value_or(0);
  const bool is_finite = std::isfinite(rank.value) && std::isfinite(rank.per_busy_s) &&
                         std::isfinite(rank.per_wait_s) && std::isfinite(slice_s);
  if (!is_finite || (rank.slice_s && slice_s <= 0)) {
    throw std::runtime_error("rank() of job " + std::to_string(job.id) + " said " +
                             std::to_string(rank.value) +
                             ": give finite numbers, and a slice_s above 0 or none");
  }
  answer.frame(kSaidRank, job.id, job.busy_ns, job.waiting_ns, rank.value, rank.per_busy_s,
               rank.per_wait_s, slice_s);
}

inline Options options_of(Fields fields) {
  if (fields.number<uint32_t>() != kVersion) {
    throw std::runtime_error("the service speaks another version than this laneway_policy.hpp");
  }
  Options options;
  options.seed = fields.number<uint64_t>();
  std::string text = fields.text() + ":";
  for (size_t at = 0, end = 0; (end = text.find(':', at)) != std::string::npos; at = end + 1) {
    const std::string item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    if (equals != std::string::npos)
      options.values[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return options;
}

// One program's side.
template <class Rule>
class Server {
 public:
  // Until the service is gone.
  void serve() {
    std::string data;
    std::array<char, 64 << 10> part;
    while (true) {
      const ssize_t got = ::recv(kDescriptor, part.data(), part.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return;
      data.append(part.data(), static_cast<size_t>(got));
      size_t at = 0;
      while (data.size() - at >= kLengthBytes) {
        uint32_t length = 0;
        std::memcpy(&length, data.data() + at, sizeof(length));
        if (length == 0 || data.size() - at - kLengthBytes < length) break;
        take(std::string_view(data).substr(at + kLengthBytes, length));
        at += kLengthBytes + length;
      }
      data.erase(0, at);
    }
  }

 private:
  void take(std::string_view frame) {
    const auto type = static_cast<uint8_t>(frame.front());
    Fields fields(frame.substr(1));
    if (type != kHello && !rule_) throw std::runtime_error("the service did not say hello first");
    switch (type) {
      case kHello: {
        rule_ = std::make_unique<Rule>(options_of(fields));
        Answer answer;
        answer.frame(kSaidHello, kVersion);
        return write(answer);
      }
      case kJob: {
        Job job = job_of(fields);
        batch_.push_back(job.id);
        jobs_[job.id] = std::move(job);
        return;
      }
      case kGone: {
        const auto found = jobs_.find(fields.number<uint64_t>());
        if (found == jobs_.end()) return;
        rule_->gone(found->second);
        jobs_.erase(found);
        return;
      }
      case kInstant: {
        const double now = fields.seconds();
        return answer(now, fields.number<uint64_t>());
      }
      default: throw std::runtime_error("the service sent a frame of another version");
    }
  }
  void answer(double now, uint64_t number) {
    Answer answer;
    for (const uint64_t id : batch_) {
      const Job& job = jobs_.at(id);
      add_rank(answer, job, rule_->rank(job, now));
    }
    batch_.clear();
    const std::optional<double> wakes_at = rule_->wakes_at(now);
    answer.frame(kSaidWakeAt, static_cast<uint8_t>(wakes_at ? 1 : 0), wakes_at.value_or(0));
    answer.frame(kSaidDone, number);
    write(answer);
  }
  // Nobody reads any more: then recv() ends it.
  static void write(const Answer& answer) {
    std::string_view left = answer.bytes();
    while (!left.empty()) {
      const ssize_t sent = ::send(kDescriptor, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;
      if (sent > 0) left.remove_prefix(static_cast<size_t>(sent));
    }
  }

  std::unique_ptr<Rule> rule_;
  std::map<uint64_t, Job> jobs_;
  std::vector<uint64_t> batch_;
};

}  // namespace detail

// Answers the service with a Rule, which is made of Options, until it is gone. Returns the exit
// code of the program: 1, and the reason on standard error, when the rule threw.
template <class Rule>
int run() {
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(detail::kDescriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("this program is a policy: give it to laneway simulate or lanewayd as --policy\n",
               stderr);
    return 1;
  }
  try {
    detail::Server<Rule>().serve();
    return 0;
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "%s\n", thrown.what());
    return 1;
  }
}

}  // namespace laneway::policy

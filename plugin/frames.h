// Frames: what a service and the program of a policy say to each other over descriptor 3. A frame
// is a length (u32, of what follows it), a type (u8) and its fields, little-endian; a text is its
// length (u16) and UTF-8. Times are whole nanoseconds of the core's clock. The Python and the C++
// side (python/laneway/policy.py, plugin/laneway_policy.hpp) have the same numbers.
//
// The service begins with Hello, and the program answers with its own. Then the service sends
// batches: Job and Gone for what changed, and Instant, which ends the batch; the program answers
// each with Rank for whom it wants, perhaps WakeAt, and Done. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lanes/state/event.h"
#include "lanes/state/job_facts.h"

namespace laneway::plugin {

inline constexpr uint32_t kVersion = 1;
// Of a frame, without its length.
inline constexpr size_t kMaxFrameBytes = 64 << 10;
// Where the program finds its end.
inline constexpr int kDescriptor = 3;

enum class FrameType : uint8_t {
  hello = 1,           // u32 version, u64 seed, text options ("key=value:key=value")
  job = 2,             // what is known of a job (add_job)
  gone = 3,            // u64 job
  instant = 4,         // i64 now, u64 number
  said_hello = 129,    // u32 version
  said_rank = 130,     // u64 job, i64 busy, i64 waiting (both as Job had them), f64 value,
                       // f64 per_busy_s, f64 per_wait_s, f64 slice_s (0: none)
  said_wake_at = 131,  // u8 whether there is such a time, f64 seconds
  said_done = 132,     // u64 number, of the Instant
};

// What the service says, appended to `bytes`.
void add_hello(std::vector<std::byte>& bytes, uint64_t seed, const std::string& options);
// `user`: whose job it is; empty: nobody knows.
void add_job(std::vector<std::byte>& bytes, const lanes::JobFacts& facts, const std::string& user);
void add_gone(std::vector<std::byte>& bytes, JobId job);
void add_instant(std::vector<std::byte>& bytes, TimePoint now, uint64_t number);

// What the program says.
struct SaidHello {
  uint32_t version = 0;
};
struct WakeAt {
  std::optional<TimePoint> time;  // nothing: it has none
};
struct Done {
  uint64_t number = 0;
};
using Said = std::variant<SaidHello, lanes::Advice, WakeAt, Done>;

// Takes the bytes of a program as they come, whatever they are, and keeps at most one frame that is
// not whole.
class FrameReader {
 public:
  void add(std::span<const std::byte> bytes);
  // The next frame; nothing when none is whole. Error invalid_argument says what is wrong with it,
  // and what would be right; nothing can be read any more then.
  Result<std::optional<Said>> next();

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace laneway::plugin

// A job that draws and writes in every iteration, and a client's play with it: whoever disturbs it
// must lead to the same bits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/service/worker_process/process_client.h"

namespace laneway::testing {

inline constexpr size_t kNoisyCount = 64;

// state += 2 * input + a random mask; output: the state afterwards. Of so many floats, which are a
// quarter at first.
ProcessJob::Form noisy(const std::string& name, size_t count = kNoisyCount);

// What a client sees of a run: every output, and the state at the end.
struct Seen {
  std::vector<std::vector<float>> outputs;
  std::vector<std::byte> state;
  std::vector<std::byte> random;
  std::optional<Error> error;  // that ended it
};

// Iterations one by one and several in flight, and the state written and read between them.
Seen play(ProcessClient& client);

// The same in a service of its own.
Seen undisturbed();

}  // namespace laneway::testing

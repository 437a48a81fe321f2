#include "simulator/adviser.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/clock.h"
#include "base/number_text.h"

namespace laneway::simulator {
namespace {

// In which a program that closed its descriptor may end, so that it can be said how.
constexpr Duration kMomentToEnd = seconds(5);
// To load an interpreter and its libraries is no thought.
constexpr Duration kPatienceToStart = seconds(60);

}  // namespace

Result<Adviser> Adviser::start(const policies::PluginText& text, uint64_t seed, Duration patience) {
  auto process = plugin::PluginProcess::start(text.file);
  if (!process) return process.error();
  Adviser adviser(text.file, patience, std::move(process).value(),
                  plugin::Conversation(text.options, seed));
  if (Status begun = adviser.listen(std::max(patience, kPatienceToStart)); !begun)
    return begun.error();
  return adviser;
}

Status Adviser::advise(TimePoint now, std::span<const lanes::Action> actions,
                       std::vector<lanes::Event>& events) {
  for (const lanes::Action& action : actions) {
    const auto* news = std::get_if<lanes::TellPolicy>(&action);
    if (news != nullptr) conversation_.tell(*news, /*user=*/"");
  }
  if (!conversation_.send(now)) return {};
  if (Status answered = listen(patience_); !answered) return answered;
  for (lanes::Event& event : conversation_.take_advice()) events.push_back(std::move(event));
  return {};
}

Status Adviser::listen(Duration patience) {
  if (Status done = exchange(patience); !done) return failure(done.error());
  return {};
}

Status Adviser::exchange(Duration patience) {
  static const SteadyClock clock;
  const TimePoint late = clock.now() + patience;
  std::array<std::byte, 16 << 10> buffer;
  while (true) {
    std::vector<std::byte>& to_send = conversation_.to_send();
    // It may have said why before it stopped reading: that is read first.
    Status written = process_.write(to_send);
    const Result<size_t> got = process_.read(buffer);
    if (!got) return got.error();
    if (got.value() > 0) {
      Status fine = conversation_.heard(std::span(buffer).first(got.value()));
      if (!fine) return fine;
    } else if (!written) {
      return written;
    }
    if (!conversation_.is_asked()) return {};
    if (got.value() > 0) continue;
    const Duration left = late - clock.now();
    if (left <= Duration() || !process_.wait(!to_send.empty(), left)) {
      return Error{ErrorCode::timed_out, "it did not answer within " + seconds_text(patience) +
                                             " s: make it faster, or give --policy-patience more"};
    }
  }
}

Error Adviser::failure(const Error& why) {
  const bool may_be_ending = why.code == ErrorCode::unavailable;
  const std::string how = process_.end(may_be_ending ? kMomentToEnd : Duration());
  // To close its descriptor is what a program that ends does last.
  std::string text = may_be_ending && !how.empty() ? how : why.message;
  if (!may_be_ending && !how.empty()) text += "; " + how;
  return {ErrorCode::failed, "policy " + file_ + ": " + text};
}

}  // namespace laneway::simulator

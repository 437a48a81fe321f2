// Conversation: what a core and the program of its policy have to say to each other, without a
// descriptor or a process: whoever has these moves the bytes. What changes while the program thinks
// is told with the next batch, the last of each job: it is never behind by more than one, and what
// waits for it is bounded by the jobs there are. Nothing that the program says is believed before
// it was checked. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "plugin/frames.h"

namespace laneway::plugin {

class Conversation {
 public:
  // `options` as plugin_of (policies/registry.h) says them. The first thing to send is there.
  Conversation(const std::string& options, uint64_t seed);

  // To be said with the next batch. `user`: of the job's client; empty: not known.
  void tell(const lanes::TellPolicy& news, const std::string& user);
  // If something is to be said, and the program has answered all before, it is put into to_send().
  // Returns whether that was so. To be called when an instant has been told, and after an answer.
  bool send(TimePoint now);

  // What is to be written to the program; whoever writes it takes it out.
  std::vector<std::byte>& to_send() { return to_send_; }
  // The program wrote that. Error invalid_argument names what is wrong with it; nothing that it
  // says counts any more then.
  Status heard(std::span<const std::byte> bytes);

  // What it advised since this was asked last, the last of each job: events for the core. Advice
  // of jobs that are over is left out.
  std::vector<lanes::Event> take_advice();
  // When it wants to be told of all jobs (AdviserChanged::asks); TimePoint::never(): it does not.
  // Must be forgotten by whoever tells it.
  TimePoint wakes_at() const { return wakes_at_; }
  void forget_wake() { wakes_at_ = TimePoint::never(); }

  bool has_begun() const { return said_hello_; }
  // It owes an answer: its hello, or that of a batch.
  bool is_asked() const { return !said_hello_ || done_ < asked_; }

 private:
  struct News {
    lanes::TellPolicy what;
    std::string user;
  };

  Status take(const SaidHello& hello);
  Status take(const lanes::Advice& advice);
  Status take(const WakeAt& wake);
  Status take(const Done& done);

  FrameReader reader_;
  std::vector<std::byte> to_send_;
  std::map<JobId, News> news_;
  std::set<JobId> told_;  // whom it knows
  JobId last_told_;       // the largest id that it was told of
  std::map<JobId, lanes::Advice> advice_;
  TimePoint wakes_at_ = TimePoint::never();
  TimePoint asked_at_;
  uint64_t asked_ = 0;
  uint64_t done_ = 0;
  bool said_hello_ = false;
};

}  // namespace laneway::plugin

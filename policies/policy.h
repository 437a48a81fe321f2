// Policy: who is admitted, who runs next, who interrupts whom, who leaves. Separate questions, so
// that each can be answered (and tested) without the others. A policy is pure: it sees the time and
// the view, and its only memory is its own fields; it reads no clock, file or environment variable
// and starts nothing. Safety is not its business: the core checks every answer, and goes on with
// fifo where an answer is nonsense. Called from one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "policies/decision.h"
#include "policies/note.h"
#include "policies/view.h"

namespace laneway::policies {

class Advised;

class Policy {
 public:
  virtual ~Policy() = default;

  // The name under which the registry knows it.
  virtual std::string_view name() const = 0;

  // Asked again after every admission and after every answer that found no room, until it answers
  // "nobody". Must not answer with a job for which view.was_tried holds.
  virtual AdmitDecision admit(TimePoint now, const View& view) = 0;

  // Always one of the candidates. Asked when a lane is idle and has jobs with work; and when a job
  // gets ready while the turn of another one is open.
  virtual PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) = 0;

  // Where a job with work stands in one order over all lanes, by which jobs that wait for a turn
  // change their lane: a lane without work gets the first of them, and one that goes before the
  // last of those that run, or are next, takes that one's lane. It must agree with pick. Nobody is
  // displaced by a job of the same rank that came later.
  virtual TurnRank turn_rank(TimePoint /*now*/, const View& /*view*/,
                             const JobView& /*job*/) const {
    return {};
  }

  // How urgent the job's work is: it may interrupt an iteration of a less urgent job, whose turn is
  // open: hold it between two nodes, or have it given up and run again. Unless another policy knows
  // better, the job's priority. For the job of an open turn the answer from the turn's begin
  // counts, until options of a job or the policy change.
  virtual int64_t urgency(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
    return job.options.priority;
  }

  // The order in which jobs that wait are meant to be admitted, as far as is known now: the lowest
  // first, ties by turn_of (first_to_leave.h). By it are the positions that people see, the work in
  // front of a job (common_rules.h), and whose the room is that leaving images give up.
  virtual int64_t admission_rank(TimePoint /*now*/, const View& /*view*/,
                                 const JobView& /*job*/) const {
    return 0;
  }

  // Who leaves the pool, with work or without; never for a job that does not go before it.
  virtual EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) = 0;

  // The job is over: what the policy keeps of it can be forgotten.
  virtual void gone(JobId /*job*/) {}

  // What it keeps of the job, whose turn begins, and could not find in the view; nothing where it
  // keeps nothing.
  virtual std::optional<PolicyNote> note(const JobView& /*job*/) const { return std::nullopt; }
  // The policy of a core before this one noted that when the job's last turn began, in the lane in
  // which the job is. Called before the first pick. Any numbers may come.
  virtual void recall(const View& /*view*/, const JobView& /*job*/, const PolicyNote& /*note*/) {}

  // By how much the job will miss its deadline, by what is known now; nothing when it has none, or
  // may meet it. Asked when somebody looks, from the offer on.
  virtual std::optional<Duration> late(TimePoint /*now*/, const View& /*view*/,
                                       const JobView& /*job*/) const {
    return std::nullopt;
  }

  // The rule, where somebody outside of the core says its order; else null.
  virtual Advised* advised() { return nullptr; }

  // Whether jobs that are in already may be put into one lane: where memory is short, or for their
  // order. Not a rule's matter: option share=no (common_rules.h).
  bool shares() const { return shares_; }

 protected:
  bool shares_ = true;
};

}  // namespace laneway::policies

// ActionHash: one number for a whole run's actions, every field of them included: two runs that
// decide differently anywhere have different hashes.
#pragma once

#include <cstdint>

#include "lanes/state/action.h"

namespace laneway::simulation {

class ActionHash {
 public:
  void add(const lanes::Action& action);
  uint64_t value() const { return hash_; }

 private:
  void mix(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3ULL; }
  void mix(Bytes bytes) { mix(static_cast<uint64_t>(bytes.count())); }
  void mix(const lanes::Reason& reason);
  void mix(const lanes::Turn& turn);
  void mix(const lanes::KeepLearnt& action);
  void mix(const lanes::TellPolicy& action);

  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace laneway::simulation

#include "adaptor/run/replay.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "adaptor/device/limits.h"

namespace laneway::adaptor {
namespace {

// Unlike the system's numbers of threads, never given twice.
uint64_t this_thread() {
  static std::atomic<uint64_t> given{0};
  thread_local const uint64_t number = ++given;
  return number;
}

}  // namespace

ReplayControl::Way ReplayControl::begin(std::optional<ReplayKey> key) {
  way_ = Way::plain;
  counts_ = true;
  if (refused_ || !key) {
    key_.reset();
    return way_;
  }
  if (recorded_ && *recorded_ == *key) return way_ = Way::replay;
  if (!key_ || *key_ != *key) {
    key_ = std::move(key);
    completed_ = 0;
    ran_.clear();
  }
  if (completed_ >= limits::kReplayAfter && this_thread_ran()) way_ = Way::record;
  return way_;
}

bool ReplayControl::this_thread_ran() const {
  return std::find(ran_.begin(), ran_.end(), this_thread()) != ran_.end();
}

void ReplayControl::note_this_thread() {
  if (!ran_.empty() && ran_.back() == this_thread()) return;
  std::erase(ran_, this_thread());
  if (ran_.size() >= limits::kReplayThreads) ran_.erase(ran_.begin());
  ran_.push_back(this_thread());
}

ReplayControl::Way ReplayControl::begin_plainly() {
  counts_ = false;
  return way_ = Way::plain;
}

ReplayControl::Way ReplayControl::begin_existing(const std::optional<ReplayKey>& key) {
  const bool exists = !refused_ && key && recorded_ && *recorded_ == *key;
  if (!exists) return begin_plainly();
  return way_ = Way::replay;
}

void ReplayControl::completed() {
  if (way_ == Way::plain && key_ && counts_) {
    ++completed_;
    note_this_thread();
  }
  if (way_ != Way::record) return;
  spoilt_ = 0;
  recorded_ = key_;
  completed_ = 0;
}

void ReplayControl::given_up() {
  // A recording takes the place of the one before it.
  if (way_ == Way::record) recorded_.reset();
  way_ = Way::plain;
}

bool ReplayControl::spoilt() {
  recorded_.reset();
  completed_ = 0;
  way_ = Way::plain;
  return ++spoilt_ <= limits::kRecordAgain;
}

void ReplayControl::refuse() {
  refused_ = true;
  recorded_.reset();
  key_.reset();
  way_ = Way::plain;
}

}  // namespace laneway::adaptor

#include "lanes/pool/pool_record.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace laneway::lanes {
namespace {

template <class... Visits>
struct Visitor : Visits... {
  using Visits::operator()...;
};
template <class... Visits>
Visitor(Visits...) -> Visitor<Visits...>;

// Returns what was there before.
template <class Map, class Key, class Value>
std::optional<Value> put(Map& map, Key key, const std::optional<Value>& value) {
  const auto found = map.find(key);
  if (found == map.end()) {
    if (value) map.emplace(key, *value);
    return std::nullopt;
  }
  const Value before = found->second;
  if (value) {
    map.at(key) = *value;
  } else {
    map.erase(found);
  }
  return before;
}

}  // namespace

void PoolRecord::begin_trial() {
  LW_CHECK(!trying_, "a trial is under way");
  trying_ = true;
}

void PoolRecord::end_trial(bool frees) {
  trying_ = false;
  freed_ = freed_ || (frees && first_freed_ < changes_.size());
  first_freed_ = SIZE_MAX;
  changes_.clear();
}

void PoolRecord::take_back(Mark mark) {
  LW_CHECK(mark <= changes_.size(), "a mark of another trial");
  for (; changes_.size() > mark; changes_.pop_back()) {
    undo(changes_.back());
  }
  if (first_freed_ >= mark) first_freed_ = SIZE_MAX;
}

void PoolRecord::undo(const Change& change) {
  using memory::LedgerOutcome;
  const Visitor back{
      [this](const Taken& range) { ranges_.free(range.offset); },
      [this](const Given& range) {
        LW_CHECK(ranges_.allocate_at(range.offset, range.size), "the range was taken before");
      },
      [this](const RangesSet& set) { ranges_.set_taken_from(set.from, set.before); },
      [this](const Entered& claim) { ledger_.release(claim.id); },
      [this](const Left& left) { ledger_.enter_again(left.id, left.claim); },
      [this](const Held& held) {
        LW_CHECK(ledger_.resize(held.id, held.before) == LedgerOutcome::done, "it held so many");
      },
      [this](const ImageSet& set) { put_image(set.job, set.before); },
      [this](const PrefixSet& set) { put(prefixes_, set.job, set.before); }};
  std::visit(back, change);
}

void PoolRecord::note(Change change, bool frees) {
  if (!trying_) {
    freed_ = freed_ || frees;
    return;
  }
  if (frees) first_freed_ = std::min(first_freed_, changes_.size());
  changes_.push_back(std::move(change));
}

memory::Ledger::Made PoolRecord::enter(const memory::Claim& wanted) {
  const memory::Ledger::Made made = ledger_.claim(wanted);
  if (made.outcome == memory::LedgerOutcome::done) note(Entered{made.id});
  return made;
}

void PoolRecord::leave(ClaimId claim) {
  if (trying_) note(Left{claim, *ledger_.find(claim)});
  ledger_.release(claim);
}

memory::LedgerOutcome PoolRecord::hold(ClaimId claim, Bytes bytes) {
  const Bytes before = trying_ ? ledger_.find(claim)->held : Bytes();
  const memory::LedgerOutcome outcome = ledger_.resize(claim, bytes);
  if (outcome == memory::LedgerOutcome::done) note(Held{claim, before});
  return outcome;
}

std::optional<Bytes> PoolRecord::take(Bytes size, memory::Placement placement) {
  const std::optional<Bytes> place = ranges_.allocate(size, placement);
  if (place) note(Taken{*place});
  return place;
}

bool PoolRecord::take_at(Bytes offset, Bytes size) {
  const bool taken = ranges_.allocate_at(offset, size);
  if (taken) note(Taken{offset});
  return taken;
}

void PoolRecord::give(Bytes offset) {
  note(Given{offset, trying_ ? ranges_.size_of(offset) : Bytes()}, /*frees=*/true);
  ranges_.free(offset);
}

std::optional<Bytes> PoolRecord::stretch(Bytes offset, Bytes size, memory::Placement kept_end) {
  const Bytes before = ranges_.size_of(offset);
  const std::optional<Bytes> place = ranges_.resize(offset, size, kept_end);
  if (place) {
    const bool holds_all = *place <= offset && *place + size >= offset + before;
    note(Given{offset, before}, /*frees=*/!holds_all);
    note(Taken{*place});
  }
  return place;
}

std::optional<PoolRecord::Image> PoolRecord::put_image(JobId job,
                                                       const std::optional<Image>& image) {
  const std::optional<Image> before = put(images_, job, image);
  const bool same = before.has_value() == image.has_value();  // an image keeps its size
  if (!same && unsorted_.size() < kMostUnsorted) {
    unsorted_.push_back({before ? before->size : image->size, job});
  }
  return before;
}

const std::vector<PoolRecord::ImageSize>& PoolRecord::image_sizes() {
  if (unsorted_.size() == kMostUnsorted) {
    by_size_.clear();
    for (const auto& [job, image] : images_) by_size_.push_back({image.size, job});
    std::sort(by_size_.begin(), by_size_.end());
    unsorted_.clear();
  }
  for (const ImageSize& one : unsorted_) {
    // It came if it was not there, and else it went.
    const auto place = std::lower_bound(by_size_.begin(), by_size_.end(), one);
    if (place != by_size_.end() && *place == one) {
      by_size_.erase(place);
    } else {
      by_size_.insert(place, one);
    }
  }
  unsorted_.clear();
  return by_size_;
}

void PoolRecord::take_from(Bytes lowest, std::span<const memory::FreeList::Range> ranges) {
  if (trying_) {
    const auto first = ranges_.taken().lower_bound(lowest.count());
    note(RangesSet{lowest, {first, ranges_.taken().end()}}, /*frees=*/true);
  }
  freed_ = freed_ || !trying_;
  ranges_.set_taken_from(lowest, ranges);
}

const PoolRecord::Image* PoolRecord::image(JobId job) const {
  const auto found = images_.find(job);
  return found == images_.end() ? nullptr : &found->second;
}

const PoolRecord::Place* PoolRecord::prefix(JobId job) const {
  const auto found = prefixes_.find(job);
  return found == prefixes_.end() ? nullptr : &found->second;
}

void PoolRecord::set_image(JobId job, const std::optional<Image>& image) {
  const std::optional<Image> before = put_image(job, image);
  if (trying_) note(ImageSet{job, before});
}

void PoolRecord::set_prefix(JobId job, const std::optional<Place>& prefix) {
  const std::optional<Place> before = put(prefixes_, job, prefix);
  if (trying_) note(PrefixSet{job, before});
}

bool PoolRecord::set_capacity(Bytes capacity) {
  LW_CHECK(!trying_, "a trial does not change the capacity");
  const Bytes before = ledger_.capacity();
  if (ledger_.set_capacity(capacity) != memory::LedgerOutcome::done) return false;
  if (ranges_.set_capacity(capacity)) {
    freed_ = true;
    return true;
  }
  LW_CHECK(ledger_.set_capacity(before) == memory::LedgerOutcome::done);
  return false;
}

}  // namespace laneway::lanes

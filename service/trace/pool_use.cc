#include "service/trace/pool_use.h"

#include <algorithm>
#include <tuple>
#include <variant>

namespace laneway::service {

template <class Key>
void PoolUse::set(std::map<Key, uint64_t>& sizes, uint64_t& sum, Key key, Bytes size) {
  uint64_t& own = sizes[key];
  sum -= own;
  own = static_cast<uint64_t>(size.count());
  sum += own;
  if (size == Bytes()) sizes.erase(key);
}

uint64_t PoolUse::free() const {
  const uint64_t used = persistent_ + in_regions_;
  return pool_ - std::min(pool_, used);
}

bool PoolUse::on_entry(const wire::trace::Entry& entry) {
  const auto before = std::tuple(pool_, persistent_, in_regions_);
  if (const auto* started = std::get_if<wire::trace::Started>(&entry)) {
    pool_ = started->pool_bytes;
  } else if (const auto* decided = std::get_if<wire::trace::Decided>(&entry)) {
    on_action(decided->action);
  } else if (const auto* heard = std::get_if<wire::trace::Heard>(&entry)) {
    if (const auto* reported = std::get_if<lanes::WorkerReported>(&heard->event)) {
      on_report(reported->report);
    } else if (const auto* left = std::get_if<lanes::ImageLeft>(&heard->event)) {
      set(images_, persistent_, left->job, Bytes());
    } else if (const auto* placed = std::get_if<lanes::ImagePlaced>(&heard->event)) {
      set(moves_, persistent_, placed->job, Bytes());
    } else if (const auto* failed = std::get_if<lanes::CopyFailed>(&heard->event)) {
      set(moves_, persistent_, failed->job, Bytes());
    }
  }
  return before != std::tuple(pool_, persistent_, in_regions_);
}

void PoolUse::on_action(const lanes::Action& action) {
  if (const auto* place = std::get_if<lanes::PlaceImage>(&action)) {
    set(images_, persistent_, place->job, place->size);
  } else if (const auto* drop = std::get_if<lanes::DropImage>(&action)) {
    set(images_, persistent_, drop->job, Bytes());
    set(moves_, persistent_, drop->job, Bytes());
  } else if (const auto* move = std::get_if<lanes::MoveImage>(&action)) {
    set(moves_, persistent_, move->job, move->size);
  } else if (const auto* open = std::get_if<lanes::OpenRegion>(&action)) {
    set(regions_, in_regions_, open->region, open->size);
  } else if (const auto* resize = std::get_if<lanes::ResizeRegion>(&action)) {
    set(regions_, in_regions_, resize->region, resize->size);
  } else if (const auto* close = std::get_if<lanes::CloseRegion>(&action)) {
    set(regions_, in_regions_, close->region, Bytes());
  } else if (const auto* pool = std::get_if<lanes::ResizePool>(&action)) {
    pool_ = static_cast<uint64_t>(pool->capacity.count());
  }
}

// A core that begins anew with what there is.
void PoolUse::on_report(const lanes::WorkerReport& report) {
  images_.clear();
  moves_.clear();
  regions_.clear();
  persistent_ = in_regions_ = 0;
  for (const lanes::ReportedJob& job : report.jobs) {
    if (job.lane.valid()) set(images_, persistent_, job.offer.job, job.image_size);
  }
  for (const lanes::ReportedRegion& region : report.regions) {
    set(regions_, in_regions_, region.region, region.size);
  }
}

}  // namespace laneway::service

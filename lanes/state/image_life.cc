#include "lanes/state/image_life.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"

namespace laneway::lanes {
namespace {

struct Rule {
  ImageState from;
  ImageState to;
};

using enum ImageState;
constexpr Rule kRules[] = {
    {absent, coming},    // it was given a range
    {coming, arriving},  // it comes from outside: its first iteration need not wait for all of it
    {coming, here},      //
    {arriving, here},    // the last byte is there
    {here, saving},      // its job has nothing to run
    {saving, here},      // the copy is whole; or its job has work, and it is not
    {here, moving},      // others need its range
    {moving, here},      // it is in the new range, or stays
    {here, leaving},     // others need the room, or its client wants it out
    {saving, leaving},   // … and the copy that is under way is of use for that
    {leaving, away},     //
    {leaving, here},     // the copy failed
    {leaving, saving},   // … and the copy ahead of need is still under way
    {away, coming},      // its job was admitted again
};

}  // namespace

const char* image_state_name(ImageState state) {
  switch (state) {
    case absent: return "absent";
    case coming: return "coming";
    case arriving: return "arriving";
    case here: return "here";
    case saving: return "saving";
    case moving: return "moving";
    case leaving: return "leaving";
    case away: return "away";
  }
  return "unknown";
}

bool image_transition_allowed(ImageState from, ImageState to) {
  return std::any_of(std::begin(kRules), std::end(kRules),
                     [&](const Rule& rule) { return rule.from == from && rule.to == to; });
}

bool ImageLife::consistent() const {
  const bool has_copy = copy.tier != Tier::none;
  const bool has_prefix = prefix.exists();
  if (clean && !has_copy) return false;
  // What there is none of lies nowhere.
  if (!has_prefix && prefix != ImagePrefix()) return false;
  if (!has_copy && copy != OutsidePlace()) return false;
  if (saves && (state != leaving || clean)) return false;
  if (moves_to != Bytes() && state != moving) return false;
  switch (state) {
    case absent: return !has_copy && !has_prefix;
    case coming: return has_copy == clean && (clean || !has_prefix);
    case here:
    case moving: return has_copy == clean && !has_prefix;
    case saving: return has_copy && !clean && !has_prefix;
    case leaving: return has_copy;
    case arriving:
    case away: return clean;
  }
  return false;
}

void ImageLife::change_to(ImageState next) {
  if (!image_transition_allowed(state, next)) {
    check_failed("image_transition_allowed", __FILE__, __LINE__,
                 std::string("an image can't go from '") + image_state_name(state) + "' to '" +
                     image_state_name(next) + "'");
  }
  state = next;
}

void ImageLife::forget_copy() {
  copy = {};
  clean = false;
}

void ImageLife::come(const ImagePrefix& stayed) {
  change_to(coming);
  prefix = stayed;
}

void ImageLife::arrive() {
  LW_CHECK(clean, "an image arrives from nowhere");
  change_to(arriving);
}

void ImageLife::placed() {
  change_to(here);
  prefix = {};
}

void ImageLife::save_to(const OutsidePlace& place) {
  change_to(saving);
  copy = place;
  clean = false;
}

void ImageLife::saved(bool whole) {
  if (state == leaving) {
    saves = false;  // its place is needed all the same
    return;
  }
  change_to(here);
  clean = whole;
  if (!whole) forget_copy();
}

void ImageLife::move_to(Bytes offset) {
  change_to(moving);
  moves_to = offset;
}

void ImageLife::moved() {
  change_to(here);
  moves_to = {};
}

void ImageLife::leave_to(const OutsidePlace& place, const ImagePrefix& stays) {
  saves = state == saving;
  change_to(leaving);
  if (copy.tier == Tier::none) copy = place;
  prefix = stays;
}

void ImageLife::left() {
  change_to(away);
  clean = true;
  saves = false;
}

void ImageLife::stay() {
  change_to(saves ? saving : here);
  prefix = {};
  clean = false;
  if (!saves) forget_copy();
  saves = false;
}

bool ImageLife::outdate() {
  clean = false;
  if (state == leaving || state == saving) return false;
  forget_copy();
  return true;
}

}  // namespace laneway::lanes

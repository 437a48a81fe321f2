// What of an image's life the journal keeps, for each of its states and each way between two of
// them: a successor that reads it at any of them finds the state that the table says.
#include "service/worker/jobs/journalled_image.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tests/service/journal/journal_file.h"

namespace laneway::service {
namespace {

using lanes::ImageLife;
using lanes::ImageState;
using lanes::OutsidePlace;
using lanes::Tier;
using enum lanes::ImageState;

constexpr LaneId kLane(3);
constexpr Bytes kOffset = mib(2);
constexpr Bytes kSize = mib(4);
constexpr uint64_t kSum = 77;
const OutsidePlace kStore{Tier::store, mib(8)};
const OutsidePlace kSpill{Tier::spill, mib(12)};

struct Step {
  std::function<void(ImageLife&)> change;
  // The image's state then, and what a successor finds if the worker dies there.
  ImageState state;
  ImageState found;
  OutsidePlace copy;  // Tier::none: it finds none
};

void come(ImageLife& image) { image.come({}); }
void arrive(ImageLife& image) { image.arrive(); }
void placed(ImageLife& image) { image.placed(); }
void moved(ImageLife& image) { image.moved(); }
void left(ImageLife& image) { image.left(); }
void stay(ImageLife& image) { image.stay(); }
void written(ImageLife& image) { (void)image.outdate(); }
void whole(ImageLife& image) { image.saved(true); }
void stopped(ImageLife& image) { image.saved(false); }
void move(ImageLife& image) { image.move_to(mib(20)); }
void save(ImageLife& image) { image.save_to(kStore); }
void leave(ImageLife& image) { image.leave_to(kSpill, {}); }
void leave_in_part(ImageLife& image) { image.leave_to(kSpill, {kOffset, mib(1)}); }
void forget(ImageLife& image) { image.prefix = {}; }

const OutsidePlace kNone;
const Step kSteps[] = {
    {come, coming, coming, kNone},      {placed, here, here, kNone},
    {move, moving, here, kNone},        {moved, here, here, kNone},
    {save, saving, here, kNone},        {stopped, here, here, kNone},
    {save, saving, here, kNone},        {leave, leaving, here, kNone},  // while it is saved
    {stay, saving, here, kNone},        {whole, here, here, kStore},
    {written, here, here, kNone},       {save, saving, here, kNone},
    {whole, here, here, kStore},        {leave, leaving, here, kStore},
    {left, away, away, kStore},         {come, coming, coming, kStore},
    {arrive, arriving, coming, kStore}, {placed, here, here, kStore},
    {written, here, here, kNone},       {leave, leaving, here, kNone},
    {stay, here, here, kNone},          {leave_in_part, leaving, here, kNone},
    {left, away, away, kSpill},  // what stayed of it is nowhere written down
    {forget, away, away, kSpill},       {come, coming, coming, kSpill},
    {placed, here, here, kSpill},
};

TEST(JournalledImage, SaysInEveryStateWhatASuccessorFinds) {
  const laneway::testing::JournalFile file;
  const std::unique_ptr<Journal> memory = file.map().value();
  JobJournal journal = memory->job(0);
  journal.open(JobId(5), {});
  ImageLife image;
  EXPECT_EQ(read_image(journal), image);
  std::set<std::pair<ImageState, ImageState>> walked;
  for (const Step& step : kSteps) {
    const ImageState before = image.state;
    const bool had_range = image.in_pool();
    step.change(image);
    if (image.state != before) walked.emplace(before, image.state);
    ASSERT_EQ(image.state, step.state);
    SCOPED_TRACE(std::string(lanes::image_state_name(before)) + " to " +
                 lanes::image_state_name(image.state));
    if (image.in_pool() && !had_range) journal.placing(kLane, kOffset, kSize);
    write_down(image, kSum, journal);
    const ImageLife found = read_image(journal);
    EXPECT_EQ(found, lanes::kept_image(image));
    EXPECT_TRUE(found.consistent());
    EXPECT_EQ(found.state, step.found);
    EXPECT_EQ(found.copy, step.copy);
    EXPECT_EQ(found.clean, step.copy.tier != Tier::none);
    EXPECT_TRUE(!found.clean || journal.copy()->checksum == kSum);
    EXPECT_EQ(journal.lane().valid(), image.in_pool());
  }
  for (size_t from = 0; from < lanes::kImageStateCount; ++from) {
    for (size_t to = 0; to < lanes::kImageStateCount; ++to) {
      const auto change = std::pair(static_cast<ImageState>(from), static_cast<ImageState>(to));
      EXPECT_EQ(walked.contains(change),
                lanes::image_transition_allowed(change.first, change.second))
          << lanes::image_state_name(change.first) << " to "
          << lanes::image_state_name(change.second);
    }
  }
}

}  // namespace
}  // namespace laneway::service

#include "service/worker/jobs/journalled_image.h"

namespace laneway::service {

using lanes::ImageState;

void write_down(const lanes::ImageLife& image, uint64_t checksum, JobJournal& journal) {
  const lanes::ImageLife kept = lanes::kept_image(image);
  // The copy first: an image leaves the pool only when it has one.
  if (kept.clean) {
    journal.keep_copy({.tier = static_cast<uint32_t>(kept.copy.tier),
                       .offset = kept.copy.offset,
                       .checksum = checksum});
  } else if (journal.copy()) {
    journal.drop_copy();
  }
  if (kept.state == ImageState::away) journal.left();
  if (kept.state == ImageState::here) journal.placed();
}

lanes::ImageLife read_image(const JobJournal& journal) {
  lanes::ImageLife image;
  if (const auto copy = journal.copy()) {
    image.copy = {static_cast<lanes::Tier>(copy->tier), copy->offset};
    image.clean = true;
  }
  if (journal.lane().valid()) {
    image.state = journal.is_placed() ? ImageState::here : ImageState::coming;
  } else {
    image.state = image.clean ? ImageState::away : ImageState::absent;
  }
  return image;
}

}  // namespace laneway::service

// What of an image's life outlives a worker: whether the image has its range of the pool, whether
// its bytes are there, and where a whole copy lies outside. The journal has that in bits; these are
// the two ways between them and lanes::ImageLife.
#pragma once

#include <cstdint>

#include "lanes/state/image_life.h"
#include "lanes/state/kept_image.h"
#include "service/journal/journal.h"

namespace laneway::service {

// Writes down what changed; a worker that is killed in between leaves the former image or this one.
// `checksum`: of the copy, where `image` is clean. Requires: JobJournal::placing was called for an
// image that has its range.
void write_down(const lanes::ImageLife& image, uint64_t checksum, JobJournal& journal);

// As a successor finds it: kept_image of what was written down.
lanes::ImageLife read_image(const JobJournal& journal);

}  // namespace laneway::service

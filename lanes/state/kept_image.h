// What of an image's life outlives the worker: what the journal says, and a successor finds.
#pragma once

#include "lanes/state/image_life.h"

namespace laneway::lanes {

// absent, coming, here or away. An image that was arriving comes again; one that was saved, moved
// or leaving is here, in its former place. What stayed of one that was away is not known any more.
ImageLife kept_image(const ImageLife& image);

}  // namespace laneway::lanes

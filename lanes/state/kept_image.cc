#include "lanes/state/kept_image.h"

namespace laneway::lanes {

ImageLife kept_image(const ImageLife& image) {
  using enum ImageState;
  ImageLife kept;
  kept.clean = image.clean;
  if (image.clean) kept.copy = image.copy;
  kept.state = image.state;
  if (image.state == arriving) kept.state = coming;
  if (image.state == saving || image.state == moving || image.state == leaving) kept.state = here;
  return kept;
}

}  // namespace laneway::lanes

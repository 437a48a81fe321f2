#include "service/supervisor/duplicates.h"

#include <utility>

namespace laneway::service {

Result<std::vector<Descriptor>> duplicates(const std::vector<const Descriptor*>& originals) {
  std::vector<Descriptor> copies;
  for (const Descriptor* original : originals) {
    auto copy = original->duplicate();
    if (!copy) return copy.error();
    copies.push_back(std::move(copy).value());
  }
  return copies;
}

Result<Descriptor> duplicate_of(int descriptor) {
  Descriptor borrowed(descriptor);
  auto copy = borrowed.duplicate();
  borrowed.release();
  return copy;
}

}  // namespace laneway::service

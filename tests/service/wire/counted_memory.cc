#include "tests/service/wire/counted_memory.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace laneway::testing {
namespace {
std::atomic<size_t> asked_for{0};
}  // namespace

size_t bytes_asked_for() { return asked_for; }

}  // namespace laneway::testing

void* operator new(size_t size) {
  laneway::testing::asked_for += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {  // tidy: allow raw-delete (replaces it)
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {  // tidy: allow raw-delete (replaces it)
  std::free(memory);
}

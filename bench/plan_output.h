// Tapes and plans as the programs of the benches print them, in JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

#include "memory/tape.h"

namespace laneway::bench {

// `"NAME": [ITEM, …], `.
template <class Item, class Print>
void print_list(const char* name, const std::vector<Item>& items, Print print) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) std::printf(", ");
    print(items[i]);
  }
  std::printf("], ");
}

inline void print_ns(const char* name, const std::vector<int64_t>& times) {
  print_list(name, times, [](int64_t ns) { std::printf("%lld", static_cast<long long>(ns)); });
}

// "allocations" ([bytes, frees before it]), "frees" and "marks" ([allocations, frees] by the start
// of each node, and the end of the last).
inline void print_tape(const memory::AllocationTape& tape,
                       const std::vector<memory::TapePosition>& marks) {
  print_list("allocations", tape.allocations, [](const auto& allocation) {
    std::printf("[%llu, %u]", static_cast<unsigned long long>(allocation.bytes),
                allocation.frees_before);
  });
  print_list("frees", tape.frees, [](uint32_t index) { std::printf("%u", index); });
  print_list("marks", marks, [](const memory::TapePosition& mark) {
    std::printf("[%u, %u]", mark.allocations, mark.frees);
  });
}

}  // namespace laneway::bench

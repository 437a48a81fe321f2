#include "tests/memory/arena_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace laneway::testing {

Script script_of(const memory::AllocationTape& tape) {
  Script script;
  size_t freed = 0;
  for (uint32_t i = 0; i < tape.allocations.size(); ++i) {
    for (; freed < tape.allocations[i].frees_before; ++freed) {
      script.push_back({true, tape.frees[freed], 0});
    }
    script.push_back({false, i, tape.allocations[i].bytes});
  }
  for (; freed < tape.frees.size(); ++freed) script.push_back({true, tape.frees[freed], 0});
  return script;
}

memory::AllocationTape tape_of(const Script& script) {
  memory::AllocationTape tape;
  std::map<uint32_t, uint32_t> index;
  for (const ScriptEvent& event : script) {
    if (event.is_free) {
      tape.frees.push_back(index.at(event.key));
      continue;
    }
    index[event.key] = static_cast<uint32_t>(tape.allocations.size());
    tape.allocations.push_back({event.bytes, static_cast<uint32_t>(tape.frees.size())});
  }
  return tape;
}

Script canonical(Script script) {
  for (auto begin = script.begin(); begin != script.end();) {
    const auto end =
        std::find_if(begin, script.end(), [](const ScriptEvent& e) { return !e.is_free; });
    std::sort(begin, end);
    begin = end == script.end() ? end : end + 1;
  }
  return script;
}

bool equal(const memory::AllocationTape& a, const memory::AllocationTape& b) {
  const auto same = [](const memory::TapeAllocation& x, const memory::TapeAllocation& y) {
    return x.bytes == y.bytes && x.frees_before == y.frees_before;
  };
  return a.frees == b.frees && std::equal(a.allocations.begin(), a.allocations.end(),
                                          b.allocations.begin(), b.allocations.end(), same);
}

LaneMemory::LaneMemory(Bytes bytes) : storage_(static_cast<size_t>(bytes.count()) + 4096) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  base_ = storage_.data() + (4096 - address % 4096) % 4096;
}

void ScriptPlayer::check_new(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + std::max<uint64_t>(bytes, 1);
  ASSERT_LE(end, static_cast<uint64_t>(arena_.capacity().count()));
  ASSERT_EQ(offset % static_cast<uint64_t>(arena_.alignment()), 0u);
  for (const auto& [key, live] : live_) {
    const uint64_t live_end = live.offset + std::max<uint64_t>(live.bytes, 1);
    ASSERT_TRUE(end <= live.offset || live_end <= offset) << "overlaps allocation " << key;
  }
}

bool ScriptPlayer::play(const ScriptEvent& event, bool free_remotely) {
  if (event.is_free) {
    const auto entry = live_.find(event.key);
    EXPECT_NE(entry, live_.end()) << "the script frees what is not alive";
    const Live& live = entry->second;
    for (uint64_t i = 0; i < live.bytes; ++i) {
      if (base_[live.offset + i] == std::byte{live.pattern}) continue;
      ADD_FAILURE() << "byte " << i << " of allocation " << event.key << " was overwritten";
      break;
    }
    std::byte* memory = base_ + live.offset;
    if (free_remotely) {
      std::thread([&] { arena_.free_remote(memory); }).join();
    } else {
      arena_.free(memory);
    }
    live_.erase(entry);
    return true;
  }
  auto* memory = static_cast<std::byte*>(arena_.allocate(event.bytes));
  if (memory == nullptr) return false;
  EXPECT_TRUE(arena_.contains(memory));
  const auto offset = static_cast<uint64_t>(memory - base_);
  check_new(offset, event.bytes);
  const auto pattern = static_cast<unsigned char>(event.key * 7 + 1);
  std::memset(memory, pattern, event.bytes);
  live_[event.key] = {offset, event.bytes, pattern};
  offsets_.push_back(offset);
  return true;
}

size_t ScriptPlayer::play(const Script& script) {
  for (size_t i = 0; i < script.size(); ++i) {
    if (!play(script[i])) return i;
  }
  return script.size();
}

void ScriptPlayer::free_all() {
  while (!live_.empty()) play({true, live_.begin()->first, 0});
}

}  // namespace laneway::testing

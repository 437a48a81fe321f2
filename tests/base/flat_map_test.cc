// FlatMap against std::map: the same changes, the same answers.
#include "base/flat_map.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace laneway {
namespace {

using Flat = FlatMap<int64_t, std::string>;
using Tree = std::map<int64_t, std::string>;

void expect_equal(const Flat& flat, const Tree& tree) {
  ASSERT_EQ(flat.size(), tree.size());
  ASSERT_EQ(flat.empty(), tree.empty());
  auto entry = flat.begin();
  for (const auto& [key, value] : tree) {
    ASSERT_EQ(entry->first, key);
    ASSERT_EQ(entry->second, value);
    ++entry;
  }
  ASSERT_EQ(std::distance(flat.rbegin(), flat.rend()), std::distance(tree.rbegin(), tree.rend()));
  if (!tree.empty()) {
    ASSERT_EQ(flat.rbegin()->first, tree.rbegin()->first);
  }
}

// The key of what an iterator shows; -1: none.
template <class Map, class Iterator>
int64_t key_of(Map& map, Iterator at) {
  return at == map.end() ? -1 : at->first;
}

TEST(FlatMap, DoesWhatATreeDoes) {
  Random random(7);
  Flat flat;
  Tree tree;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t key = random.between(0, 60);
    const std::string value = std::to_string(i);
    switch (random.below(6)) {
      case 0:
      case 1: ASSERT_EQ(flat.emplace(key, value), tree.emplace(key, value).second); break;
      case 2: {
        const auto found = flat.find(key);
        ASSERT_EQ(found != flat.end(), tree.count(key) > 0);
        if (found == flat.end()) break;
        const auto behind = flat.erase(found);
        ASSERT_EQ(key_of(flat, behind), key_of(tree, tree.erase(tree.find(key))));
        break;
      }
      case 3:
        ASSERT_EQ(flat.contains(key), tree.count(key) > 0);
        if (flat.contains(key)) flat.at(key) = tree.at(key) = value;
        break;
      case 4: {
        std::vector<Flat::Entry> entries;
        for (int64_t next = key; next < 60; next += random.between(1, 20)) {
          entries.push_back({next, value});
        }
        tree.erase(tree.lower_bound(key), tree.end());
        for (const auto& [next, its] : entries) tree.emplace(next, its);
        flat.replace_from(std::as_const(flat).lower_bound(key), entries);
        break;
      }
      default:
        ASSERT_EQ(key_of(flat, flat.lower_bound(key)), key_of(tree, tree.lower_bound(key)));
        ASSERT_EQ(key_of(flat, flat.upper_bound(key)), key_of(tree, tree.upper_bound(key)));
    }
    expect_equal(flat, tree);
  }
}

TEST(FlatMap, ACopyIsItsOwn) {
  Flat one;
  one.emplace(1, "a");
  Flat other = one;
  other.at(1) = "b";
  EXPECT_EQ(one.at(1), "a");
  EXPECT_THROW(one.at(2), std::out_of_range);
}

}  // namespace
}  // namespace laneway

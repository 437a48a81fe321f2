// FlatMap: a sorted map in one piece of memory, for entries that are small: a look-up is a binary
// search, a walk or a copy one pass; to add or erase moves the entries behind. Ordered like
// std::map, of whose interface it has what is used; but every change makes all iterators and
// references invalid.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace laneway {

template <class Key, class Value>
class FlatMap {
 public:
  // The key of an entry must not be changed. Not a std::pair, which is never copied as plain bytes:
  // to add or erase would move the entries behind one by one.
  struct Entry {
    Key first;
    Value second;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  using iterator = typename std::vector<Entry>::iterator;
  using const_iterator = typename std::vector<Entry>::const_iterator;

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  auto rbegin() const { return entries_.rbegin(); }
  auto rend() const { return entries_.rend(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }

  // The first entry whose key is not less than `key`; greater than it.
  iterator lower_bound(const Key& key) { return begin() + (first_from(key) - entries_.cbegin()); }
  const_iterator lower_bound(const Key& key) const { return first_from(key); }
  iterator upper_bound(const Key& key) {
    const iterator at = lower_bound(key);
    return at != end() && !(key < at->first) ? at + 1 : at;
  }
  iterator find(const Key& key) {
    return begin() + (std::as_const(*this).find(key) - entries_.cbegin());
  }
  const_iterator find(const Key& key) const {
    const const_iterator at = first_from(key);
    return at != end() && !(key < at->first) ? at : end();
  }
  bool contains(const Key& key) const { return find(key) != end(); }
  // Throws std::out_of_range where there is none.
  Value& at(const Key& key) {
    const iterator found = find(key);
    if (found == end()) throw std::out_of_range("no such key");
    return found->second;
  }

  // Adds an entry, or changes nothing where there is one; which of the two.
  bool emplace(const Key& key, Value value) {
    if (!empty() && entries_.back().first < key) {
      entries_.push_back(Entry{key, std::move(value)});
      return true;
    }
    const iterator at = lower_bound(key);
    if (at != end() && !(key < at->first)) return false;
    entries_.insert(at, Entry{key, std::move(value)});
    return true;
  }
  // Puts these in the place of all entries from `first` on. Requires: their keys are ascending, and
  // greater than those before `first`.
  void replace_from(const_iterator first, std::span<const Entry> entries) {
    entries_.erase(first, entries_.cend());
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }
  // The entry behind it.
  iterator erase(iterator entry) { return entries_.erase(entry); }

 private:
  // Without a branch that depends on what is found: such a branch is guessed wrong half of the
  // times, and that is most of the cost.
  const_iterator first_from(const Key& key) const {
    const Entry* first = entries_.data();
    for (size_t left = entries_.size(); left > 0; left /= 2) {
      const size_t step = (left + 1) / 2;
      first += step * static_cast<size_t>(first[step - 1].first < key);
    }
    return begin() + (first - entries_.data());
  }

  std::vector<Entry> entries_;
};

}  // namespace laneway

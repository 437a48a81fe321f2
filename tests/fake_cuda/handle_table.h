// HandleTable: live objects behind the opaque handles of the API. Handles are numbers that are
// never used twice, so a handle that outlived its object is always found out. Guarded by the Gpu's
// mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace laneway::fake_cuda {

template <typename Handle, typename T>
class HandleTable {
 public:
  // `first` tells the tables apart; handles are multiples of 16, as pointers would be.
  explicit HandleTable(uintptr_t first) : next_(first) {}

  Handle add(std::shared_ptr<T> object) {
    const Handle handle = reinterpret_cast<Handle>(next_);
    next_ += 16;
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Null when there is none.
  std::shared_ptr<T> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Takes it out of the table; null when there was none.
  std::shared_ptr<T> take(Handle handle) {
    std::shared_ptr<T> object = find(handle);
    objects_.erase(handle);
    return object;
  }
  const std::map<Handle, std::shared_ptr<T>>& all() const { return objects_; }
  size_t size() const { return objects_.size(); }
  void clear() { objects_.clear(); }

 private:
  uintptr_t next_;
  std::map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace laneway::fake_cuda

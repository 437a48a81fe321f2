// RemoteLoss: whether a remote device was lost, and with it everything of this process on it. An
// input breaks the device when it begins with the floats of `breaks`, as an index that is out of
// range breaks a GPU. Thread-safe.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"

namespace laneway::testing {

class RemoteLoss {
 public:
  enum class When : uint8_t { at_once, when_retired };
  // Whether these bytes of an input break the device: 710, -710 at once; 710, -711 when what the
  // iteration left in flight is retired, and its state is written.
  static std::optional<When> breaks(const void* input, Bytes bytes);

  void lose() LW_EXCLUDES(mutex_);
  // device_lost, once it was.
  Status health() const LW_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  bool lost_ LW_GUARDED_BY(mutex_) = false;
};

}  // namespace laneway::testing

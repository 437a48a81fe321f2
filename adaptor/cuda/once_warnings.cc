#include "adaptor/cuda/once_warnings.h"

#include <string>
#include <unordered_set>

#include "base/log.h"
#include "base/mutex.h"

namespace laneway::adaptor {
namespace {

// Then torch is no longer listened to: a text that names sizes has many forms.
constexpr size_t kMostTexts = 64;

struct Said {
  Mutex mutex;
  std::unordered_set<std::string> texts LW_GUARDED_BY(mutex);
};

}  // namespace

OnceWarnings& OnceWarnings::instance() {
  static auto* warnings = new OnceWarnings;  // threads may end after static destructors
  return *warnings;
}

void OnceWarnings::process(const c10::Warning& warning) {
  static auto* said = new Said;
  const MutexLock lock(said->mutex);
  if (said->texts.size() >= kMostTexts) return;
  if (said->texts.insert(warning.msg()).second) log_warning("torch warns: " + warning.msg());
}

}  // namespace laneway::adaptor

#include "base/job_options.h"

namespace laneway {

const char* job_class_name(JobClass job_class) {
  switch (job_class) {
    case JobClass::training: return "training";
    case JobClass::inference: return "inference";
    case JobClass::best_effort: return "best_effort";
  }
  return "unknown";
}

}  // namespace laneway

// JobNames: what the jobs of a trace are called, as far as its records said so. Not thread-safe.
#pragma once

#include <map>
#include <string>

#include "base/ids.h"
#include "lanes/state/event.h"

namespace laneway::service {

class JobNames {
 public:
  void on_event(const lanes::Event& event);
  // "job 3 'digits'", or "job 3" when its beginning is not in the trace.
  std::string with_number(JobId job) const;
  // "digits", or "job 3".
  std::string alone(JobId job) const;

 private:
  std::map<JobId, std::string> names_;
};

}  // namespace laneway::service

// ServiceFront: a service behind laneway_service, in whichever library of laneway.h: core and
// worker inside this process, or a connection to a running lanewayd. The C functions check
// handles; an implementation does the work, and answers unavailable once the service is closed.
// laneway.h has the contract of each operation. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "service/api/job_front.h"
#include "service/api/job_request.h"

namespace laneway::service {

class ServiceFront {
 public:
  ServiceFront() = default;
  virtual ~ServiceFront() = default;
  ServiceFront(const ServiceFront&) = delete;
  ServiceFront& operator=(const ServiceFront&) = delete;

  virtual Result<std::shared_ptr<JobFront>> create_job(const JobRequest& request,
                                                       std::span<const std::byte> graph) = 0;
  virtual Result<std::shared_ptr<JobFront>> attach(const std::string& name) = 0;
  // JSON. `with_ended`: also of the last few jobs that are over.
  virtual Result<std::string> status(bool with_ended) = 0;
  // JSON, of the job of that number.
  virtual Result<std::string> job_report(uint64_t job) = 0;
  // A command of laneway_service_command; `argument` may be null.
  virtual Status command(const std::string& command, const char* argument) = 0;
  // Of the job that the text means (service/wire/job_ref.h). Requires: check_job_changes.
  virtual Status set(const std::string& job, const JobChanges& changes) = 0;
  // Valid as long as this object.
  virtual const char* kernels() const = 0;
  // Ends every job that was made with the service. Idempotent.
  virtual void close() = 0;
};

// invalid_argument: no command has this name and this number of arguments.
Error no_such_command(const std::string& command, bool has_argument);

}  // namespace laneway::service

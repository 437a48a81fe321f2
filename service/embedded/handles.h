// What the opaque types of laneway.h are in embedded mode.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/result.h"
#include "service/api/c_border.h"
#include "service/api/laneway.h"
#include "service/embedded/embedded.h"
#include "service/wire/job_spec.h"

struct laneway_service {
  std::shared_ptr<laneway::service::EmbeddedService> service;
  laneway::service::OwnerProcess owner;

  laneway::Status check() const { return {}; }
};

struct laneway_job {
  std::shared_ptr<laneway::service::EmbeddedService> service;
  laneway::service::JobHandle job;
  std::vector<laneway::wire::SlotSpec> slots;
  laneway::lanes::JobClass job_class = laneway::lanes::JobClass::training;
  // Of a job that another handle owns: closing ends this handle's part alone.
  bool attached = false;
  std::atomic<bool> detached{false};
  laneway::service::OwnerProcess owner;

  laneway::Status check() const {
    if (!detached) return {};
    return laneway::Error{laneway::ErrorCode::unavailable,
                          "this handle of job '" + job->name + "' was closed; attach again"};
  }
};

struct laneway_submission {
  std::shared_ptr<laneway::service::Work> work;
  // For laneway_cancel; a submission keeps neither.
  std::weak_ptr<laneway::service::EmbeddedService> service;
  std::weak_ptr<laneway::service::WorkerJob> job;
  laneway::service::OwnerProcess owner;

  laneway::Status check() const { return {}; }
};

namespace laneway::service {

// The handle of a job that was made, or attached to.
laneway_job* new_job_handle(std::shared_ptr<EmbeddedService> service, JobHandle job,
                            lanes::JobClass job_class, bool attached);

}  // namespace laneway::service

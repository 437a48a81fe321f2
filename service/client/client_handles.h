// What the opaque types of laneway.h are in the client library.
#pragma once

#include <memory>

#include "base/result.h"
#include "service/api/owner_process.h"
#include "service/client/client_job.h"
#include "service/client/client_service.h"
#include "service/client/submission.h"

struct laneway_service {
  std::shared_ptr<laneway::service::ClientService> service;
  laneway::service::OwnerProcess owner;

  laneway::Status check() const { return {}; }
};

struct laneway_job {
  std::shared_ptr<laneway::service::ClientJob> job;
  laneway::service::OwnerProcess owner;

  laneway::Status check() const { return {}; }
};

struct laneway_submission {
  std::shared_ptr<laneway::service::Submission> submission;
  laneway::service::OwnerProcess owner;

  laneway::Status check() const { return {}; }
};

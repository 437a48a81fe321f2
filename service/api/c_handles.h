// What the opaque types of laneway.h are, in both libraries: what the handle stands for, and the
// process that it belongs to.
#pragma once

#include <memory>

#include "service/api/laneway.h"
#include "service/api/owner_process.h"
#include "service/api/service_front.h"

struct laneway_service {
  std::shared_ptr<laneway::service::ServiceFront> front;
  laneway::service::OwnerProcess owner;
};

struct laneway_job {
  std::shared_ptr<laneway::service::JobFront> front;
  laneway::service::OwnerProcess owner;
};

struct laneway_submission {
  std::shared_ptr<laneway::service::SubmissionFront> front;
  laneway::service::OwnerProcess owner;
};

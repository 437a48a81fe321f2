// What the opaque types of laneway.h are in embedded mode, and how its functions are fenced:
// nothing but a code and a sentence crosses the border, and a handle works in its own process
// alone.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "base/result.h"
#include "service/client/laneway.h"
#include "service/embedded/embedded.h"
#include "service/embedded/owner_process.h"

struct laneway_service {
  std::shared_ptr<laneway::service::EmbeddedService> service;
  laneway::service::OwnerProcess owner;
};

struct laneway_job {
  std::shared_ptr<laneway::service::EmbeddedService> service;
  laneway::service::JobHandle job;
  laneway::service::OwnerProcess owner;
};

struct laneway_submission {
  std::shared_ptr<laneway::service::Work> work;
  laneway::service::OwnerProcess owner;
};

namespace laneway::service {

// Each fills `error` unless it is null, and returns the code.
int report(laneway_error* error, int code, const std::string& message);
int report(laneway_error* error, const Error& what);
int report(laneway_error* error, const Status& status);

// Runs `body`; what it throws becomes LANEWAY_INTERNAL.
template <class Body>
int guarded(laneway_error* error, const Body& body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return report(error, LANEWAY_INTERNAL, std::string("unexpected: ") + thrown.what());
  }
}

// The same for a function of `handle`: without one, and in a process that is not the handle's, the
// body does not run.
template <class Handle, class Body>
int guarded(const Handle* handle, laneway_error* error, const Body& body) {
  return guarded(error, [&] {
    if (handle == nullptr) {
      return report(error, LANEWAY_INVALID_ARGUMENT, "the handle is NULL");
    }
    if (!handle->owner.is_this()) return report(error, handle->owner.error_elsewhere());
    return body();
  });
}

// Deletes the handle; in a process that is not its own only the handle's own bytes are lost.
template <class Handle>
void release(Handle* handle) {
  if (handle == nullptr || !handle->owner.is_this()) return;
  delete handle;  // tidy: allow raw-delete (the handle is the C caller's to release)
}

}  // namespace laneway::service

// The border of laneway.h: nothing but a code and a sentence crosses it, and a handle works in its
// own process alone. Shared by both libraries; a handle type has `owner`, an OwnerProcess.
// Thread-safe.
#pragma once

#include <exception>
#include <string>

#include "base/result.h"
#include "service/api/laneway.h"
#include "service/api/owner_process.h"

namespace laneway::service {

// Each fills `error` unless it is null, and returns the code.
int report(laneway_error* error, int code, const std::string& message);
int report(laneway_error* error, const Error& what);
int report(laneway_error* error, const Status& status);

// A copy that the caller frees with laneway_free. LANEWAY_INVALID_ARGUMENT without a place for it.
int give_text(const std::string& text, char** out, laneway_error* error);

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
int guarded(Handle* handle, laneway_error* error, const Body& body) {
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

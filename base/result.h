// Result<T>: a value, or a failure (socket closed, bad message, file missing): a code that programs
// test, and a sentence that names the thing, the value, the limit and the remedy. Expected outcomes
// (no room now, queue full) are enums in the return value instead; bugs are LW_CHECK. Value types;
// not thread-safe.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace laneway {

enum class ErrorCode {
  invalid_argument,  // the caller passed something wrong
  invalid_graph,     // a graph breaks a rule of its format, or of an operator
  out_of_memory,     // a limit of memory was met and waiting cannot help
  refused,           // the service refused for good, with the reason: the same call fails again
  unavailable,       // the other process does not exist (any more)
  failed,            // a job or an operation failed while it ran
  quarantined,       // the job caused faults and is not run again
  cancelled,         // a caller asked for the end
  timed_out,         // the given time passed
  unsupported,       // known, but this build or device cannot do it
  internal,          // a fault of Laneway itself that could be contained
  device_lost,       // the device failed for good: this process cannot use it any more
  other_layout,      // an operator laid a result out otherwise than its graph declares
  busy,              // a limit is used up for now: the same call can succeed later
};

// The code's name as in the enum, for messages and logs.
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

// Either a value or an Error. To read the side that is not there is a bug and stops the process.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : content_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    require_value();
    return std::get<0>(content_);
  }
  const T& value() const& {
    require_value();
    return std::get<0>(content_);
  }
  T&& value() && {
    require_value();
    return std::get<0>(std::move(content_));
  }
  const Error& error() const {
    LW_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(content_);
  }

 private:
  void require_value() const { LW_CHECK(ok(), ok() ? "" : std::get<1>(content_).message); }

  std::variant<T, Error> content_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error{…};` is how failures are told
  Status(Error error) : failed_(true), error_(std::move(error)) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    LW_CHECK(failed_, "error() of a Status that is ok");
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace laneway

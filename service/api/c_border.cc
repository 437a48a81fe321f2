#include "service/api/c_border.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace laneway::service {
namespace {

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return LANEWAY_INVALID_ARGUMENT;
    case ErrorCode::invalid_graph: return LANEWAY_INVALID_GRAPH;
    case ErrorCode::out_of_memory: return LANEWAY_OUT_OF_MEMORY;
    case ErrorCode::refused: return LANEWAY_REFUSED;
    case ErrorCode::unavailable: return LANEWAY_UNAVAILABLE;
    case ErrorCode::failed: return LANEWAY_FAILED;
    case ErrorCode::quarantined: return LANEWAY_QUARANTINED;
    case ErrorCode::cancelled: return LANEWAY_CANCELLED;
    case ErrorCode::timed_out: return LANEWAY_TIMED_OUT;
    case ErrorCode::unsupported: return LANEWAY_UNSUPPORTED;
    case ErrorCode::internal: return LANEWAY_INTERNAL;
    case ErrorCode::device_lost: return LANEWAY_DEVICE_LOST;
    case ErrorCode::other_layout: return LANEWAY_OTHER_LAYOUT;
    case ErrorCode::busy: return LANEWAY_BUSY;
  }
  return LANEWAY_INTERNAL;
}

}  // namespace

int report(laneway_error* error, int code, const std::string& message) {
  if (error != nullptr) {
    error->code = code;
    const size_t length = std::min(message.size(), sizeof(error->message) - 1);
    std::memcpy(error->message, message.data(), length);
    error->message[length] = '\0';
  }
  return code;
}

int report(laneway_error* error, const Error& what) {
  return report(error, code_of(what.code), what.message);
}

int report(laneway_error* error, const Status& status) {
  return status ? LANEWAY_OK : report(error, status.error());
}

int give_text(const std::string& text, char** out, laneway_error* error) {
  if (out == nullptr) return report(error, LANEWAY_INVALID_ARGUMENT, "no place for the text");
  *out = static_cast<char*>(std::malloc(text.size() + 1));
  if (*out == nullptr) throw std::bad_alloc();
  std::memcpy(*out, text.c_str(), text.size() + 1);
  return LANEWAY_OK;
}

}  // namespace laneway::service

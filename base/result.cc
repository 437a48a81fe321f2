#include "base/result.h"

namespace laneway {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::invalid_graph: return "invalid_graph";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::refused: return "refused";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::failed: return "failed";
    case ErrorCode::quarantined: return "quarantined";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::internal: return "internal";
    case ErrorCode::device_lost: return "device_lost";
    case ErrorCode::other_layout: return "other_layout";
    case ErrorCode::busy: return "busy";
  }
  return "unknown";
}

}  // namespace laneway

// ValueKind: whether a value of a graph (an input, an output, a value between two nodes) is a
// tensor or a number.
#pragma once

#include <cstdint>

namespace laneway {

// Numbered as in graphs (laneway/graph/graph_ir.py) and in messages; never renumber.
enum class ValueKind : uint8_t { tensor = 0, integer = 1, real = 2, boolean = 3 };

// "tensor", "integer", …: as laneway_job_describe gives it.
constexpr const char* value_kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::tensor: return "tensor";
    case ValueKind::integer: return "integer";
    case ValueKind::real: return "real";
    case ValueKind::boolean: return "boolean";
  }
  return "unknown";
}

}  // namespace laneway

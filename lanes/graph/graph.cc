#include "lanes/graph/graph.h"

#include <array>

#include "base/check.h"

namespace laneway::lanes {
namespace {

struct DTypeFacts {
  const char* name;
  int64_t bytes;
};

// Indexed by the number of the dtype.
constexpr std::array<DTypeFacts, kDTypeCount> kDTypes = {{
    {"bool", 1},
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex64", 8},
    {"complex128", 16},
}};

const DTypeFacts& facts(DType dtype) {
  const auto index = static_cast<uint8_t>(dtype);
  LW_CHECK(index < kDTypeCount, "dtype number " + std::to_string(index));
  return kDTypes[index];
}

}  // namespace

int64_t dtype_bytes(DType dtype) { return facts(dtype).bytes; }
const char* dtype_name(DType dtype) { return facts(dtype).name; }

}  // namespace laneway::lanes

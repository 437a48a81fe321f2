// The one binary form of a graph: what clients send. Decoding trusts nothing: every count is
// checked against base/limits.h and against the bytes that are left before anything is reserved,
// unknown tags, versions and flags are refused, and nothing may be left over. Decoded does not mean
// valid: graph_check comes next. Thread-safe (no state).
//
// Little-endian throughout. u8, u32, u64, i32, i64 are integers, f64 an IEEE double, bool a u8 of 0
// or 1, str a u32 length and that many bytes of UTF-8.
//
// clang-format off
//   graph    := "LWGR" u32 version(=2)
//               str name, u8 kind
//               i32 threads, bool mkldnn, bool deterministic, bool warn_only, bool flush_denormal,
//               6 x u8 float32 precision (graph.h: Float32Use), u8 default_dtype
//               u32 n, n x str        text table (operator names, argument names, sources)
//               u32 n, n x storage
//               u32 n, n x value
//               u32 n, n x u32        inputs
//               u32 n, n x u32        outputs
//               u32 n, n x node
//               u32 first_write
//   storage  := u8 kind, u32 index, u64 bytes
//   value    := u8 kind; for a tensor also:
//               u8 dtype, u32 storage, i64 storage_offset, u32 dimensions,
//               dimensions x i64 size, dimensions x i64 stride
//   node     := u32 op (text), u32 source (text)
//               u32 n, n x (u32 name (text), argument)
//               u32 n, n x (bool is_list, u32 m, m x u32 value)      results
//               u32 n, n x u32 value                                 writes
//   argument := u8 tag, then
//               0 none | 1 value: u32 | 2 integer: i64 | 3 real: f64 | 4 boolean: bool |
//               5 text: str | 6 dtype: u8 | 7 memory format: u8 | 8 layout | 9 device |
//               10 generator | 11 list: u32 n, n x argument |
//               12 complex: f64 real, f64 imaginary
// clang-format on
// (text) is an index into the text table; entry 0 is always the empty string. The order of fields
// and the numbering of enums are those of graph.h. kNoValue is 0xffffffff.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::lanes {

inline constexpr uint32_t kGraphFormatVersion = 2;

// Equal graphs give equal bytes: the text table is in the order in which nodes first name its
// entries. Decoding accepts any order. The counts must be within the limits, else decoding refuses.
std::vector<std::byte> encode_graph(const Graph& graph);

// Error invalid_graph names the field, the value, the limit and the byte offset.
Result<Graph> decode_graph(std::span<const std::byte> bytes);

}  // namespace laneway::lanes

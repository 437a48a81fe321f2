// Maxima of a graph. Training steps of the largest models captured so far have under 10,000 nodes;
// a decoder must not be made to reserve more than its input justifies, so each count is also
// checked against the bytes that are left.
#pragma once

#include <cstdint>

namespace laneway::limits {

inline constexpr uint32_t kMaxGraphNodes = 1'000'000;
inline constexpr uint32_t kMaxGraphValues = 4'000'000;
inline constexpr uint32_t kMaxGraphInputs = 4'096;
inline constexpr uint32_t kMaxGraphOutputs = 65'536;
inline constexpr uint32_t kMaxNodeArguments = 256;  // fused optimizers have about 20
// In total, list elements included: one byte of a message can ask for an argument of 40 bytes.
inline constexpr uint64_t kMaxGraphArguments = 16'000'000;
inline constexpr uint32_t kMaxGraphTexts = 2'000'000;  // distinct operators, names and user lines
// Names and user lines in total: many nodes can name one text of the table.
inline constexpr uint64_t kMaxGraphTextBytes = 512ull << 20;
inline constexpr uint32_t kMaxListElements = 1'000'000;  // foreach and fused lists, split results
inline constexpr uint32_t kMaxListDepth = 4;          // lists of lists of indices are the deepest
inline constexpr uint32_t kMaxTensorDimensions = 64;  // torch's own bound
// All storages of a graph together, alive at once or not: sums stay far from overflow.
inline constexpr uint64_t kMaxGraphStorageBytes = 1ull << 56;
inline constexpr int32_t kMaxThreads = 1'024;            // of one iteration's operators
inline constexpr uint64_t kMaxTensorBytes = 1ull << 46;  // 64 TiB: products stay far from overflow

}  // namespace laneway::limits

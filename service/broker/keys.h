// The keys under which parts of jobs are held, and back. Pure functions.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace laneway::service {

inline std::string job_key(JobId job) { return "j/" + std::to_string(job.value()); }
inline std::string graph_key(JobId job, uint32_t graph) {
  return "g/" + std::to_string(job.value()) + "/" + std::to_string(graph);
}
inline std::string link_key(JobId job, uint32_t link) {
  return "l/" + std::to_string(job.value()) + "/" + std::to_string(link);
}
inline std::string segment_key(JobId job, uint32_t link, uint32_t segment) {
  return "m/" + std::to_string(job.value()) + "/" + std::to_string(link) + "/" +
         std::to_string(segment);
}

// The numbers of a key "x/1/2/3"; nothing when it has another form.
inline std::optional<std::vector<uint64_t>> key_numbers(std::string_view key) {
  std::vector<uint64_t> numbers;
  size_t at = 1;
  while (at < key.size()) {
    if (key[at] != '/') return std::nullopt;
    uint64_t number = 0;
    const char* const end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data() + at + 1, end, number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    at = static_cast<size_t>(stop - key.data());
  }
  return numbers;
}

}  // namespace laneway::service

// Traces for tests: a record of every kind of entry, event and action, filled at random, and a file
// that holds some.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "service/trace/trace_reader.h"
#include "service/trace/trace_writer.h"
#include "service/wire/codec_trace.h"
#include "tests/service/wire/message_filler.h"

namespace laneway::testing {

using wire::trace::Record;

// Each alternative of the variant once.
template <class... T>
std::vector<std::variant<T...>> each_filled(Random& random, const std::variant<T...>& /*kinds*/) {
  std::vector<std::variant<T...>> all;
  all.reserve(sizeof...(T));
  const auto add = [&]<class One>() {
    One one;
    MessageFiller filler(random);
    filler(one);
    all.emplace_back(std::move(one));
  };
  (add.template operator()<T>(), ...);
  return all;
}

inline std::vector<Record> every_record(Random& random) {
  std::vector<Record> records;
  int64_t time_ns = 1'000;
  const auto add = [&](wire::trace::Entry entry) {
    records.push_back({.time_ns = ++time_ns, .entry = std::move(entry)});
  };
  for (auto& entry : each_filled(random, wire::trace::Entry())) add(std::move(entry));
  for (auto& event : each_filled(random, lanes::Event())) add(wire::trace::Heard{event});
  for (auto& action : each_filled(random, lanes::Action())) add(wire::trace::Decided{action});
  return records;
}

inline std::vector<std::byte> bytes_of(const Record& record) {
  std::vector<std::byte> bytes;
  wire::encode_record(record, bytes);
  return bytes;
}

inline void append_records(const std::string& path, const std::vector<Record>& records) {
  auto writer = service::TraceWriter::append(path);
  LW_CHECK(writer.ok(), "a trace that was begun");
  for (const Record& record : records) writer.value()->note(TimePoint(record.time_ns), record);
}

struct ReadBack {
  std::vector<std::vector<std::byte>> records;  // encoded
  std::string error;
};
inline ReadBack read_back(const std::string& path) {
  ReadBack back;
  auto reader = service::TraceReader::open(path);
  if (!reader) {
    back.error = reader.error().message;
    return back;
  }
  while (true) {
    auto record = reader.value().next();
    if (!record) {
      back.error = record.error().message;
      return back;
    }
    if (!record.value()) return back;
    back.records.push_back(bytes_of(*record.value()));
  }
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace laneway::testing

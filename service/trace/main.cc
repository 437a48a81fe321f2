// laneway-trace: reads what `lanewayd --trace FILE` wrote: prints it, or makes JSON of it for
// Chrome and Perfetto.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/version.h"
#include "service/trace/chrome_trace.h"
#include "service/trace/job_names.h"
#include "service/trace/trace_reader.h"
#include "service/trace/trace_text.h"

namespace laneway::service {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Contents {
  TraceHeader header;
  std::vector<wire::trace::Record> records;  // in the order of the file
  std::optional<Error> error;                // why there are no more of them
};

int complain(int code, const std::string& what) {
  std::fprintf(stderr, "laneway-trace: %s\n", what.c_str());
  return code;
}

Contents read(TraceReader& reader) {
  Contents contents{reader.header(), {}, {}};
  while (true) {
    auto record = reader.next();
    if (!record) {
      contents.error = record.error();
      return contents;
    }
    if (!record.value()) return contents;
    contents.records.push_back(std::move(*record.value()));
  }
}

// Iterations come in the file when their worker reported them, which is later.
void print(Contents& contents) {
  const auto earlier = [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; };
  std::stable_sort(contents.records.begin(), contents.records.end(), earlier);
  JobNames names;
  for (const wire::trace::Record& record : contents.records) {
    if (const auto* heard = std::get_if<wire::trace::Heard>(&record.entry)) {
      names.on_event(heard->event);
    }
    std::cout << time_text(ns_between(contents.header.steady_ns, record.time_ns)) << ' '
              << entry_text(record.entry, names) << '\n';
  }
  std::cout.flush();
}

Status write_chrome(const Contents& contents, const std::string& path) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) {
    ChromeTrace chrome(out, contents.header.steady_ns);
    for (const wire::trace::Record& record : contents.records) chrome.add(record);
    chrome.finish();
    out.close();
  }
  if (out) return {};
  return Error{ErrorCode::failed,
               "'" + path + "' cannot be written: " + std::strerror(errno != 0 ? errno : EIO)};
}

int run(const std::string& file, const std::string& chrome) {
  auto reader = TraceReader::open(file);
  if (!reader) return complain(kFailed, reader.error().message);
  Contents contents = read(reader.value());
  if (chrome.empty()) {
    print(contents);
  } else if (const Status written = write_chrome(contents, chrome); !written) {
    return complain(kFailed, written.error().message);
  }
  if (contents.error) {
    return complain(kFailed, contents.error->message + "; what stands before it was read");
  }
  return 0;
}

}  // namespace
}  // namespace laneway::service

int main(int count, char** words) {
  CLI::App app("laneway-trace: shows what `lanewayd --trace FILE` wrote, one line an entry.",
               "laneway-trace");
  std::string file;
  std::string chrome;
  app.add_option("FILE", file, "the trace")->required()->type_name("");
  app.add_option("--chrome", chrome,
                 "print nothing; write JSON for ui.perfetto.dev and chrome://tracing to this file")
      ->type_name("OUT");
  app.set_version_flag("--version", std::string("laneway-trace ") + laneway::version());
  app.footer(
      "Times are seconds since lanewayd began the trace.\n"
      "Exit codes: 0 done, 1 not all of the file could be read, 2 wrong usage.");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : laneway::service::kUsage;
  }
  return laneway::service::run(file, chrome);
}

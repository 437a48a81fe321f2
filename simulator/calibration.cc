#include "simulator/calibration.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "base/number_text.h"
#include "base/version.h"
#include "service/trace/trace_file.h"

namespace laneway::simulator {
namespace {

using Json = nlohmann::json;

constexpr int64_t kForm = 1;  // of the file
constexpr int64_t kLongestNs = 3'600'000'000'000;
constexpr int64_t kMostBytesPerS = int64_t{1} << 50;
constexpr const char* kRemedy = ": measure again with `laneway calibrate`";

Error refused(const std::string& name, const std::string& what) {
  return Error{ErrorCode::invalid_argument, name + " " + what + kRemedy};
}

// Of the text as every writer of JSON writes it: keys sorted, no spaces, whole numbers only.
std::string sum_of(const Json& measured) {
  const std::string text = measured.dump(-1, ' ', /*ensure_ascii=*/true);
  std::array<char, 9> hex{};
  (void)std::snprintf(hex.data(), hex.size(), "%08x",
                      service::check_sum(std::as_bytes(std::span(text))));
  return hex.data();
}

// Throws Json::exception where there is none of this name and kind.
int64_t number_of(const Json& object, const char* key, int64_t most) {
  const Json& value = object.at(key);
  const auto number = value.is_number_integer() ? value.get<int64_t>() : -1;
  if (number >= 0 && number <= most) return number;
  throw Json::other_error::create(0, std::string(key) + " is " + value.dump(), &object);
}

Duration time_of(const Json& object, const char* key) {
  return Duration(number_of(object, key, kLongestNs));
}

std::string shown(const Machine& machine) {
  return (machine.cpu.empty() ? "an unnamed processor" : machine.cpu) + ", " +
         std::to_string(machine.cores) + " cores, Laneway " + machine.version;
}

// As a table of pairs: speeds are what an iteration takes alone over what it takes beside the
// other.
Result<PairSpeeds> pairs_of(const std::string& name, const Json& measured,
                            const std::map<std::string, Duration>& alone) {
  std::string text = "job_a,job_b,norm_a,norm_b\n";
  for (const Json& pair : measured.at("pairs")) {
    const auto a = pair.at("a").get<std::string>();
    const auto b = pair.at("b").get<std::string>();
    const auto speed = [&](const std::string& kind, const char* key) {
      const Duration beside = time_of(pair, key);
      if (beside <= Duration())
        throw Json::other_error::create(0, std::string(key) + " is 0", &pair);
      return number_text(static_cast<double>(alone.at(kind).ns()) /
                         static_cast<double>(beside.ns()));
    };
    text +=
        a + "," + b + "," + speed(a, "a_iteration_ns") + "," + speed(b, "b_iteration_ns") + "\n";
  }
  const auto table = Table::parse(name, text);
  if (!table) return table.error();
  return PairSpeeds::of(table.value());
}

Result<Calibration> content_of(const std::string& name, const Json& measured) {
  Calibration all;
  all.turn_gap = time_of(measured, "turn_gap_ns");
  all.start_up = time_of(measured, "start_up_ns");
  all.copies = {.in = number_of(measured, "copy_in_bytes_per_s", kMostBytesPerS),
                .out = number_of(measured, "copy_out_bytes_per_s", kMostBytesPerS)};
  for (const auto& [kind, model] : measured.at("models").items()) {
    const Duration iteration = time_of(model, "iteration_ns");
    if (iteration <= Duration()) return refused(name, "says that " + kind + " takes no time");
    all.iterations.emplace(kind, iteration);
  }
  auto pairs = pairs_of(name, measured, all.iterations);
  if (!pairs) return pairs.error();
  all.pairs = std::move(pairs).value();
  return all;
}

}  // namespace

Machine this_machine() {
  Machine here{.cpu = {}, .cores = 0, .version = version()};
  constexpr std::string_view kKey = "model name";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; here.cpu.empty() && std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != std::string::npos) here.cpu = line.substr(colon + 2);
  }
  here.cores = sysconf(_SC_NPROCESSORS_ONLN);
  return here;
}

Result<Calibration> calibration_of(const std::string& name, std::string_view text,
                                   const Machine& here) {
  try {
    const Json document = Json::parse(text);
    const int64_t form = number_of(document, "laneway_calibration", INT64_MAX);
    if (form != kForm) {
      return refused(name, "is a calibration of form " + std::to_string(form) +
                               ", and this version reads form " + std::to_string(kForm));
    }
    const Json& measured = document.at("measured");
    if (document.at("check_sum") != Json(sum_of(measured))) {
      return refused(name, "was changed or cut since it was written: its check sum is wrong");
    }
    const Json& machine = measured.at("machine");
    const Machine there{.cpu = machine.at("cpu").get<std::string>(),
                        .cores = number_of(machine, "cores", INT64_MAX),
                        .version = measured.at("version").get<std::string>()};
    if (there != here) {
      return refused(name, "is of another machine or version (" + shown(there) + "; here is " +
                               shown(here) + "), whose times say nothing of this one");
    }
    return content_of(name, measured);
  } catch (const std::exception& error) {
    return refused(name, std::string("is no calibration, or a damaged one (") + error.what() + ")");
  }
}

Result<Calibration> read_calibration(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::invalid_argument, path + " cannot be read"};
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return calibration_of(path, text, this_machine());
}

Status Calibration::apply(std::vector<SimJob>& jobs) const {
  for (SimJob& job : jobs) {
    const auto found = iterations.find(job.kind);
    if (found == iterations.end()) {
      std::string known;
      for (const auto& [kind, time] : iterations) known += (known.empty() ? "" : ", ") + kind;
      return Error{ErrorCode::invalid_argument,
                   "--calibration: job " + job.options.name +
                       (job.kind.empty() ? " has no model_name" : " is of the model " + job.kind) +
                       ", and measured were " + known +
                       ": measure that model too, or leave --calibration out"};
    }
    if (job.iterations != UINT64_MAX &&
        job.iterations > static_cast<uint64_t>(kLongestJob.ns() / found->second.ns())) {
      return Error{ErrorCode::invalid_argument, "--calibration: job " + job.options.name +
                                                    " then takes longer than 73 years: give it "
                                                    "fewer iterations"};
    }
    // A client tells what its trace or, here, the machine has.
    if (job.estimate == job.iteration) job.estimate = found->second;
    job.iteration = found->second;
  }
  return {};
}

}  // namespace laneway::simulator

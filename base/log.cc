#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/log_file.h"
#include "base/printable.h"

namespace laneway {
namespace {

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>("laneway", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%f %l %v");
  logger->flush_on(spdlog::level::info);
  return logger;
}

// Replaced as a whole by set_log_file; readers copy the pointer.
std::shared_ptr<spdlog::logger>& current() {
  static auto logger = [] {
    auto made = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return logger;
}

// Empty: standard error. Set before there are other threads, and read by the one that set it.
std::string& current_file() {
  static std::string path;
  return path;
}

std::shared_ptr<spdlog::logger> logger() { return std::atomic_load(&current()); }

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::debug;
  if (text == "info") return LogLevel::info;
  if (text == "warning") return LogLevel::warning;
  if (text == "error") return LogLevel::error;
  if (text == "off") return LogLevel::off;
  return Error{ErrorCode::invalid_argument, "unknown log level '" + std::string(text) +
                                                "': use debug, info, warning, error or off"};
}

const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
    case LogLevel::off: return "off";
  }
  return "off";
}

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return logger()->set_level(spdlog::level::debug);
    case LogLevel::info: return logger()->set_level(spdlog::level::info);
    case LogLevel::warning: return logger()->set_level(spdlog::level::warn);
    case LogLevel::error: return logger()->set_level(spdlog::level::err);
    case LogLevel::off: return logger()->set_level(spdlog::level::off);
  }
}

Status set_log_file(const std::string& path) {
  try {
    auto made = make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    made->set_level(logger()->level());
    std::atomic_store(&current(), std::move(made));
    current_file() = path;
    return {};
  } catch (const spdlog::spdlog_ex& error) {
    return Error{ErrorCode::invalid_argument,
                 "log file '" + path + "' cannot be opened: " + error.what()};
  }
}

Status reopen_log_file() {
  if (current_file().empty()) return {};
  const std::string path = current_file();
  return set_log_file(path);
}

void log_debug(const std::string& line) { logger()->debug("{}", escaped(line)); }
void log_info(const std::string& line) { logger()->info("{}", escaped(line)); }
void log_warning(const std::string& line) { logger()->warn("{}", escaped(line)); }
void log_error(const std::string& line) { logger()->error("{}", escaped(line)); }

}  // namespace laneway

// Log lines for operators: one line per event, with the usual levels, to standard error unless a
// file is set; what obeys a terminal is escaped. Thread-safe. Only log.cc includes spdlog.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway {

enum class LogLevel { debug, info, warning, error, off };

// Reads "debug", "info", "warning", "error", "off". Any other text gives invalid_argument, which
// names it.
Result<LogLevel> parse_log_level(std::string_view text);
// The word that parse_log_level reads.
const char* log_level_name(LogLevel level);

void set_log_level(LogLevel level);
// Lines are appended to `path` from now on. Error when the file cannot be opened.
Status set_log_file(const std::string& path);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warning(const std::string& line);
void log_error(const std::string& line);

}  // namespace laneway

// Log lines for operators: one line an event, levels as usual, to standard error unless a file is
// set. Thread-safe. spdlog is named in log.cc alone.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace laneway {

enum class LogLevel { debug, info, warning, error, off };

// Reads "debug", "info", "warning", "error", "off"; else invalid_argument naming the text.
Result<LogLevel> parse_log_level(std::string_view text);
// The word that parse_log_level reads.
const char* log_level_name(LogLevel level);

void set_log_level(LogLevel level);
// Lines go to `path` (appended) from now on; error when it cannot be opened.
Status set_log_file(const std::string& path);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warning(const std::string& line);
void log_error(const std::string& line);

}  // namespace laneway

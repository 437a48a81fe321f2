#include "service/supervisor/config_lines.h"

#include <fstream>
#include <string_view>

namespace laneway::service {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

ConfigLines ConfigLines::read(const std::string& path) {
  ConfigLines all;
  all.path_ = path;
  std::ifstream file(path);
  std::string line;
  for (uint32_t number = 1; std::getline(file, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    const bool is_section = text.front() == '[';
    const std::string_view key = is_section ? text : trimmed(text.substr(0, text.find('=')));
    all.lines_.push_back({.key = std::string(key), .number = number});
  }
  return all;
}

std::string ConfigLines::place_of(const Line& line) const {
  return path_ + ":" + std::to_string(line.number) + ": ";
}

std::string ConfigLines::place_of(const std::string& key) const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    if (line->key == key) return place_of(*line);
  }
  return "";
}

}  // namespace laneway::service

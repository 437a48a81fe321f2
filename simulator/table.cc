#include "simulator/table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.h"
#include "simulator/decimal.h"

namespace laneway::simulator {
namespace {

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const size_t comma = std::min(line.find(','), line.size());
    std::string_view field = line.substr(0, comma);
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
    fields.emplace_back(field);
    if (comma == line.size()) return fields;
    line.remove_prefix(comma + 1);
  }
}

Error invalid(std::string what) { return {ErrorCode::invalid_argument, std::move(what)}; }

}  // namespace

Result<Table> Table::read(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) {
    return invalid("'" + path + "' cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
  }
  return parse(path, text);
}

Result<Table> Table::parse(const std::string& name, std::string_view text) {
  Table table;
  table.name_ = name;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    const std::string where = name + ", line " + std::to_string(number);
    if (line.find('"') != std::string_view::npos) {
      return invalid(where + ": quotes are not read: write fields without commas and quotes");
    }
    std::vector<std::string> fields = split(line);
    if (table.header_.empty()) {
      if (std::set<std::string>(fields.begin(), fields.end()).size() != fields.size()) {
        return invalid(where + ": two columns have one name");
      }
      table.header_ = std::move(fields);
      continue;
    }
    if (fields.size() != table.header_.size()) {
      return invalid(where + ": " + std::to_string(fields.size()) + " fields, and the header has " +
                     std::to_string(table.header_.size()));
    }
    table.fields_.push_back(std::move(fields));
    table.lines_.push_back(number);
  }
  if (table.header_.empty()) return invalid(name + " is empty: its first line names the columns");
  return table;
}

std::optional<size_t> Table::index_of(std::string_view column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  if (found == header_.end()) return {};
  return static_cast<size_t>(found - header_.begin());
}

const std::string& Table::text(size_t row, std::string_view column) const {
  const auto index = index_of(column);
  LW_CHECK(index.has_value(), "there is a column " + std::string(column));
  return fields_.at(row).at(*index);
}

Result<int64_t> Table::number(size_t row, std::string_view column, int64_t unit, int64_t least,
                              std::optional<int64_t> fallback) const {
  if (fallback && (!has(column) || text(row, column).empty())) return *fallback;
  const std::string& given = text(row, column);
  const auto value = scaled_decimal(given, unit);
  if (!value) return wrong(row, column, "'" + given + "' is no number that can be used");
  if (*value < least) return wrong(row, column, given + " is too small");
  return *value;
}

Result<double> Table::real(size_t row, std::string_view column, double fallback) const {
  if (!has(column) || text(row, column).empty()) return fallback;
  const std::string& given = text(row, column);
  double value = 0;
  const char* end = given.data() + given.size();
  const auto [after, status] = std::from_chars(given.data(), end, value);
  if (status != std::errc() || after != end) {
    return wrong(row, column, "'" + given + "' is no number");
  }
  return value;
}

Error Table::wrong(size_t row, std::string_view column, const std::string& what) const {
  return invalid(name_ + ", line " + std::to_string(lines_.at(row)) + ", column " +
                 std::string(column) + ": " + what);
}

Status Table::require(const std::vector<std::string>& columns) const {
  std::string missing;
  for (const std::string& column : columns) {
    if (!has(column)) missing += (missing.empty() ? "" : ", ") + column;
  }
  if (missing.empty()) return {};
  return invalid(name_ + " has no column " + missing);
}

}  // namespace laneway::simulator

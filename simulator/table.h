// Table: the rows of a CSV file with a header, as text. Errors name the file, the line and the
// column. Fields are split at commas; quotes are refused, as no format of traces needs them. Value
// type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace laneway::simulator {

class Table {
 public:
  // Error invalid_argument: the file cannot be read, has no header or a column twice, or a line has
  // another number of fields than the header. Blank lines are skipped.
  static Result<Table> read(const std::string& path);
  // As read; `name` stands for the path.
  static Result<Table> parse(const std::string& name, std::string_view text);

  const std::string& name() const { return name_; }
  size_t rows() const { return lines_.size(); }
  bool has(std::string_view column) const { return index_of(column).has_value(); }
  // Requires of all that follow: there is such a row; of those without `fallback`: there is such a
  // column.
  const std::string& text(size_t row, std::string_view column) const;
  // Multiplied by `unit` and at least `least`; see decimal.h. The fallback is for a table without
  // the column, or a row where the field is empty.
  Result<int64_t> number(size_t row, std::string_view column, int64_t unit, int64_t least,
                         std::optional<int64_t> fallback = {}) const;
  Result<double> real(size_t row, std::string_view column, double fallback) const;
  // "FILE, line N, column C: WHAT".
  Error wrong(size_t row, std::string_view column, const std::string& what) const;
  // The error that names columns which there must be and are not.
  Status require(const std::vector<std::string>& columns) const;

 private:
  std::optional<size_t> index_of(std::string_view column) const;

  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> fields_;  // by row, then by column
  std::vector<size_t> lines_;                     // of the rows, from 1
};

}  // namespace laneway::simulator

// Row: the fields of one row of a table, read one after the other; the first error is kept, and the
// numbers behind it mean nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/job_options.h"
#include "base/result.h"
#include "simulator/table.h"

namespace laneway::simulator {

class Row {
 public:
  // The table must outlive the row.
  Row(const Table& table, size_t row) : table_(table), row_(row) {}

  // As Table::number and Table::real.
  int64_t number(std::string_view column, int64_t unit, int64_t least,
                 std::optional<int64_t> fallback = {}) {
    return taken(table_.number(row_, column, unit, least, fallback));
  }
  double real(std::string_view column, double fallback) {
    return taken(table_.real(row_, column, fallback));
  }
  // Empty: there is no such column.
  std::string text(std::string_view column) const {
    return table_.has(column) ? table_.text(row_, column) : std::string();
  }
  int32_t priority();
  JobClass job_class();
  // "2017-10-09 07:01:55" as seconds since 1970, without any zone of time.
  int64_t wall_time(std::string_view column);

  void fail(std::string_view column, const std::string& what) {
    if (status_) status_ = table_.wrong(row_, column, what);
  }
  const Status& status() const { return status_; }

 private:
  template <class T>
  T taken(const Result<T>& result) {
    if (result) return result.value();
    if (status_) status_ = result.error();
    return T();
  }

  const Table& table_;
  size_t row_;
  Status status_;
};

}  // namespace laneway::simulator

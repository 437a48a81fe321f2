// DistinctFields gives every field of JobOptions a value of its own, none the default; FieldTexts
// lists them. Neither names a field, so a test covers an option that does not exist yet.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/job_options.h"
#include "service/wire/fields.h"

namespace laneway::service {

class DistinctFields {
 public:
  template <class... T>
  void operator()(T&... fields) {
    (fill(fields), ...);
  }

 private:
  void fill(std::string& text) { text = "field " + std::to_string(++last_); }
  void fill(bool& value) { value = !value; }
  void fill(Duration& value) { value = seconds(++last_); }
  template <class T>
  requires std::is_enum_v<T>
  void fill(T& value) { value = static_cast<T>(static_cast<int>(value) + 1); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void fill(T& value) {
    const int number = 100 + ++last_;
    value = static_cast<T>(number);
  }

  int last_ = 0;
};

class FieldTexts {
 public:
  template <class... T>
  void operator()(T&... fields) {
    (add(fields), ...);
  }

  std::vector<std::string> texts;

 private:
  void add(const std::string& text) { texts.push_back(text); }
  void add(Duration value) { texts.push_back(std::to_string(value.ns())); }
  template <class T>
  requires std::is_enum_v<T>
  void add(T value) { texts.push_back(std::to_string(static_cast<int>(value))); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(T value) { texts.push_back(std::to_string(value)); }
};

inline JobOptions distinct_options() {
  JobOptions options;
  DistinctFields fields;
  std::apply(fields, wire::fields(options));
  return options;
}

inline std::vector<std::string> field_texts(JobOptions options) {
  FieldTexts fields;
  std::apply(fields, wire::fields(options));
  return fields.texts;
}

}  // namespace laneway::service

// Operands: one node's operands for the rules about its operator: the sizes, dtypes and lists that
// the graph declares, by the names of the operator's schema, and a small language of shapes to
// match them against. One object per match; the graph must outlive it.
//
// The language, entries separated by blanks and taken from the left:
//   name[N C *S]   a tensor: sizes by letter, `*S` any number of sizes, `_` any size, `4H`, `2`.
//                  A letter stands for one number in the whole rule.
//   name?[C]       the same where it is given
//   name(a b)      a list of constants; name(#2) any two
//   name=H         a constant
// and behind a tensor, in this order:
//   :T             tensors with one letter have one dtype
//   !              no element of memory stands for several elements
//   /              the elements of a row lie side by side
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adaptor/operators/node_arguments.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// A requirement of an operator on a tensor beyond sizes and dtype. For tensors that the iteration
// makes it can be checked only when the operator is about to run.
struct OperandNeed {
  enum class Kind : uint8_t {
    not_expanded,     // no element of memory stands for several elements
    dense_rows,       // the elements of a row lie side by side
    not_expanded_in,  // of dimension `number`
    last_reaches,     // the last element is at least `number`
    divides,          // not the smallest integer where `other` (or `number`) is -1
    not_smallest,     // no element is the smallest integer of its dtype
    counts,           // no element is negative; their sum is `number`, unless `number` is -1
  };
  lanes::ValueIndex value = lanes::kNoValue;
  Kind kind = Kind::not_expanded;
  std::string argument;
  int64_t number = 0;
  lanes::ValueIndex other = lanes::kNoValue;

  bool is_layout() const { return kind <= Kind::not_expanded_in; }
};

bool layout_fits(const OperandNeed& need, std::span<const int64_t> sizes,
                 std::span<const int64_t> strides);
std::string need_text(const OperandNeed& need);

std::string sizes_text(std::span<const int64_t> sizes);

class Operands {
 public:
  Operands(const lanes::Graph& graph, const lanes::Node& node);

  // Matches the operands with a pattern of the language. invalid_graph names the operand, its
  // property and the required one.
  Status match(std::string_view pattern);

  // The size, or the sizes, that match has bound to a letter; 0 or none for a letter that it has
  // not bound.
  int64_t size(std::string_view letter) const;
  const std::vector<int64_t>& group(std::string_view letter) const;

  // A tensor's sizes; empty for a number, which torch makes a tensor without dimensions. nullptr
  // when the operand is not given.
  const std::vector<int64_t>* sizes(std::string_view name) const;
  // The tensors of a list; nothing when one of the list's elements is no tensor.
  std::optional<std::vector<lanes::ValueIndex>> list(std::string_view name) const;
  bool is_given(std::string_view name) const;
  const NodeArguments& arguments() const { return arguments_; }
  const lanes::Value& value(lanes::ValueIndex index) const { return graph_.values[index]; }

  // The dimension that the argument gives, counted from the front.
  std::optional<size_t> dimension(std::string_view name, size_t rank) const;

  void need(OperandNeed needed) { needs_.push_back(std::move(needed)); }
  std::vector<OperandNeed> take_needs() { return std::move(needs_); }

  static Error wrong(std::string_view name, const std::string& what);
  static Error wrong_sizes(std::string_view name, std::span<const int64_t> sizes,
                           const std::string& expected);

 private:
  Status match_tensor(std::string_view name, std::string_view dims, bool optional);
  Status match_flags(std::string_view name, std::string_view flags);
  Status match_list(std::string_view name, std::string_view items);
  Status match_number(std::string_view name, std::string_view letter);
  bool fits(std::string_view dims, const std::vector<int64_t>& sizes);
  bool fits_one(std::string_view dim, int64_t size);
  std::string expected_text(std::string_view dims) const;

  const lanes::Graph& graph_;
  NodeArguments arguments_;
  std::map<std::string_view, int64_t> sizes_;
  std::map<std::string_view, std::vector<int64_t>> groups_;
  std::map<std::string_view, lanes::DType> dtypes_;
  std::vector<OperandNeed> needs_;
};

}  // namespace laneway::adaptor

// Operands: what a rule about an operator's operands sees of one node: the sizes, dtypes and lists
// that the graph declares, by the names of the operator's schema, and a small language of shapes to
// hold them to. Lives for one look; the graph outlives it.
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

// What an operator needs of a tensor beyond sizes and dtype. Of tensors that the iteration makes it
// is known only when the operator is about to run.
struct OperandNeed {
  enum class Kind : uint8_t {
    not_expanded,     // no element of memory stands for several elements
    dense_rows,       // the elements of a row lie side by side
    not_expanded_in,  // of dimension `number`
    last_reaches,     // the last element is `number` or more
    divides,          // not the smallest integer where `other` (or `number`) is -1
    not_smallest,     // no element is the smallest integer of its dtype
    counts,           // no element is negative; together they are `number`, unless that is -1
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

  // invalid_graph: which operand, what it has, what it must have.
  Status match(std::string_view pattern);

  // Of what match has bound; 0 and nothing for others.
  int64_t size(std::string_view letter) const;
  const std::vector<int64_t>& group(std::string_view letter) const;

  // A tensor's sizes; of a number, which torch makes a tensor of, none. nullptr: not given.
  const std::vector<int64_t>* sizes(std::string_view name) const;
  // The tensors of a list; nothing where one of them is none.
  std::optional<std::vector<lanes::ValueIndex>> list(std::string_view name) const;
  bool is_given(std::string_view name) const;
  const NodeArguments& arguments() const { return arguments_; }
  const lanes::Value& value(lanes::ValueIndex index) const { return graph_.values[index]; }

  // The dimension that the argument names, counted from the front.
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

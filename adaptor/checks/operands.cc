#include "adaptor/checks/operands.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "base/check.h"

namespace laneway::adaptor {
namespace {

// Takes what stands before `stop` off the front, and `stop` with it.
std::string_view take_until(std::string_view& text, char stop) {
  const size_t end = std::min(text.find(stop), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) found.push_back(take_until(text, ' '));
  return found;
}

// "4H" is 4 and "H", "2" is 2 and "", "H" is 1 and "H".
std::pair<int64_t, std::string_view> factor_and_letter(std::string_view dim) {
  int64_t factor = 1;
  const char* const end = std::from_chars(dim.data(), dim.data() + dim.size(), factor).ptr;
  return {factor, dim.substr(static_cast<size_t>(end - dim.data()))};
}

}  // namespace

std::string sizes_text(std::span<const int64_t> sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

bool layout_fits(const OperandNeed& need, std::span<const int64_t> sizes,
                 std::span<const int64_t> strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end() || sizes.empty()) return true;
  const auto step = [&](size_t d) { return sizes[d] > 1 ? strides[d] : 1; };
  if (need.kind == OperandNeed::Kind::dense_rows) return step(sizes.size() - 1) == 1;
  if (need.kind == OperandNeed::Kind::not_expanded_in) {
    return step(static_cast<size_t>(need.number)) != 0;
  }
  int64_t elements = 1;
  int64_t extent = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    elements *= sizes[d];
    extent += (sizes[d] - 1) * strides[d];
  }
  return extent >= elements;
}

std::string need_text(const OperandNeed& need) {
  switch (need.kind) {
    case OperandNeed::Kind::not_expanded: return "memory of its own for each element";
    case OperandNeed::Kind::dense_rows: return "the elements of a row side by side";
    case OperandNeed::Kind::not_expanded_in:
      return "memory of its own for each element of dimension " + std::to_string(need.number);
    case OperandNeed::Kind::last_reaches:
      return "a last element of at least " + std::to_string(need.number);
    case OperandNeed::Kind::divides: return "no smallest integer that is divided by -1";
    case OperandNeed::Kind::not_smallest: return "no smallest integer of its dtype";
    case OperandNeed::Kind::counts:
      return need.number < 0 ? "no negative element"
                             : "no negative element and " + std::to_string(need.number) + " in sum";
  }
  return {};
}

Operands::Operands(const lanes::Graph& graph, const lanes::Node& node)
    : graph_(graph), arguments_(graph, node) {}

Status Operands::match(std::string_view pattern) {
  while (!pattern.empty()) {
    if (pattern.front() == ' ') {
      pattern.remove_prefix(1);
      continue;
    }
    const size_t end = pattern.find_first_of("?[(=");
    LW_CHECK(end != std::string_view::npos, "a rule's entry has a form");
    const std::string_view name = pattern.substr(0, end);
    const bool optional = pattern[end] == '?';
    const char form = pattern[end + (optional ? 1 : 0)];
    pattern.remove_prefix(end + (optional ? 2 : 1));
    Status matched;
    if (form == '[') {
      const std::string_view dims = take_until(pattern, ']');
      const std::string_view flags = take_until(pattern, ' ');
      matched = match_tensor(name, dims, optional);
      if (matched) matched = match_flags(name, flags);
    } else if (form == '(') {
      matched = match_list(name, take_until(pattern, ')'));
    } else {
      matched = match_number(name, take_until(pattern, ' '));
    }
    if (!matched) return matched;
  }
  return {};
}

Status Operands::match_tensor(std::string_view name, std::string_view dims, bool optional) {
  const std::vector<int64_t>* given = sizes(name);
  if (given == nullptr) {
    if (optional && !is_given(name)) return {};
    return wrong(name, "must be a tensor " + expected_text(dims));
  }
  if (fits(dims, *given)) return {};
  return wrong_sizes(name, *given, expected_text(dims));
}

Status Operands::match_flags(std::string_view name, std::string_view flags) {
  const lanes::ValueIndex index = arguments_.value(name);
  if (index == lanes::kNoValue || value(index).kind != lanes::ValueKind::tensor) return {};
  while (!flags.empty()) {
    const char flag = flags.front();
    flags.remove_prefix(1);
    if (flag == '!') need({index, OperandNeed::Kind::not_expanded, std::string(name)});
    if (flag == '/') need({index, OperandNeed::Kind::dense_rows, std::string(name)});
    if (flag != ':') continue;
    const auto [known, added] = dtypes_.try_emplace(flags.substr(0, 1), value(index).dtype);
    flags.remove_prefix(1);
    if (added || known->second == value(index).dtype) continue;
    return wrong(name, std::string("is ") + lanes::dtype_name(value(index).dtype) +
                           ", the operator takes it for " + lanes::dtype_name(known->second));
  }
  return {};
}

Status Operands::match_list(std::string_view name, std::string_view items) {
  const auto given = arguments_.integers(name);
  const std::vector<std::string_view> wanted = words(items);
  const bool counted = wanted.size() == 1 && wanted[0].front() == '#';
  const auto count =
      counted ? factor_and_letter(wanted[0].substr(1)).first : static_cast<int64_t>(wanted.size());
  if (!given || static_cast<int64_t>(given->size()) != count) {
    return wrong(name, "must be " + std::to_string(count) + " constants");
  }
  for (size_t i = 0; !counted && i < wanted.size(); ++i) {
    if (fits_one(wanted[i], (*given)[i])) continue;
    return wrong(name, "is " + sizes_text(*given) + ", it must be " + expected_text(items));
  }
  return {};
}

Status Operands::match_number(std::string_view name, std::string_view letter) {
  const auto given = arguments_.integer(name);
  if (given && fits_one(letter, *given)) return {};
  return wrong(name, (given ? "is " + std::to_string(*given) + ", it must be "
                            : std::string("must be a constant, ")) +
                         expected_text(letter));
}

bool Operands::fits(std::string_view dims, const std::vector<int64_t>& sizes) {
  const std::vector<std::string_view> wanted = words(dims);
  const auto group = std::find_if(wanted.begin(), wanted.end(),
                                  [](std::string_view word) { return word.front() == '*'; });
  const bool has_group = group != wanted.end();
  const size_t single = wanted.size() - (has_group ? 1 : 0);
  if (sizes.size() < single || (!has_group && sizes.size() != single)) return false;
  auto size = sizes.begin();
  for (auto word = wanted.begin(); word != wanted.end(); ++word) {
    if (word != group) {
      if (!fits_one(*word, *size++)) return false;
      continue;
    }
    const auto end = size + static_cast<int64_t>(sizes.size() - single);
    const std::vector<int64_t> here(size, end);
    const auto [known, added] = groups_.try_emplace(word->substr(1), here);
    if (!added && known->second != here) return false;
    size = end;
  }
  return true;
}

bool Operands::fits_one(std::string_view dim, int64_t size) {
  if (dim == "_") return true;
  const auto [factor, letter] = factor_and_letter(dim);
  if (letter.empty()) return size == factor;
  const auto known = sizes_.find(letter);
  if (known != sizes_.end()) return size == known->second * factor;
  if (size % factor != 0) return false;
  sizes_.emplace(letter, size / factor);
  return true;
}

std::string Operands::expected_text(std::string_view dims) const {
  std::string text;
  for (const std::string_view word : words(dims)) {
    if (word.front() == '*') {
      const auto known = groups_.find(word.substr(1));
      const std::string found = known == groups_.end() ? "[...]" : sizes_text(known->second);
      const std::string inner = found.substr(1, found.size() - 2);
      if (!inner.empty()) text += (text.empty() ? "" : ", ") + inner;
      continue;
    }
    const auto [factor, letter] = factor_and_letter(word);
    const auto known = sizes_.find(letter);
    text += text.empty() ? "" : ", ";
    if (letter.empty() || known != sizes_.end()) {
      text += std::to_string(factor * (letter.empty() ? 1 : known->second));
    } else {
      text += "any";
    }
  }
  return "[" + text + "]";
}

int64_t Operands::size(std::string_view letter) const {
  const auto found = sizes_.find(letter);
  return found == sizes_.end() ? 0 : found->second;
}

const std::vector<int64_t>& Operands::group(std::string_view letter) const {
  static const std::vector<int64_t> none;
  const auto found = groups_.find(letter);
  return found == groups_.end() ? none : found->second;
}

const std::vector<int64_t>* Operands::sizes(std::string_view name) const {
  const lanes::ValueIndex index = arguments_.value(name);
  return index == lanes::kNoValue ? nullptr : &value(index).sizes;
}

std::optional<std::vector<lanes::ValueIndex>> Operands::list(std::string_view name) const {
  const lanes::Argument* given = arguments_.find(name);
  const auto* list = given == nullptr ? nullptr : std::get_if<lanes::ListArgument>(&given->content);
  if (list == nullptr) return std::nullopt;
  std::vector<lanes::ValueIndex> values;
  for (const lanes::Argument& element : list->elements) {
    const auto* listed = std::get_if<lanes::ValueArgument>(&element.content);
    if (listed == nullptr) return std::nullopt;
    values.push_back(listed->value);
  }
  return values;
}

bool Operands::is_given(std::string_view name) const {
  const lanes::Argument* given = arguments_.find(name);
  return given != nullptr && !std::holds_alternative<lanes::NoneArgument>(given->content);
}

std::optional<size_t> Operands::dimension(std::string_view name, size_t rank) const {
  const auto given = arguments_.integer(name);
  const auto dimensions = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (!given || *given < -dimensions || *given >= dimensions) return std::nullopt;
  return static_cast<size_t>(*given < 0 ? *given + dimensions : *given);
}

Error Operands::wrong(std::string_view name, const std::string& what) {
  return Error{ErrorCode::invalid_graph,
               "argument '" + std::string(name) + "' " + what +
                   ": the operator does not look at it and would reach beyond its tensors; "
                   "capture the step again"};
}

Error Operands::wrong_sizes(std::string_view name, std::span<const int64_t> sizes,
                            const std::string& expected) {
  return wrong(name, "has sizes " + sizes_text(sizes) + ", it must have " + expected);
}

}  // namespace laneway::adaptor

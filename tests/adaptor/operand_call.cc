#include "tests/adaptor/operand_call.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace laneway::testing {
namespace {

using lanes::Argument;

// Reads one line from the left.
class Reader {
 public:
  Reader(std::string_view text, std::vector<OperandTensor>& tensors)
      : text_(text), tensors_(tensors) {}

  bool done() const { return text_.empty(); }
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string until(std::string_view stops) {
    const size_t end = std::min(text_.find_first_of(stops), text_.size());
    std::string word(text_.substr(0, end));
    text_.remove_prefix(end);
    return word;
  }

  // name=argument or argument
  lanes::NamedArgument named() {
    const size_t equals = text_.find('=');
    const size_t other = text_.find_first_of("[('; ");
    std::string name;
    if (equals < other) {
      name = until("=");
      take("=");
    }
    return {std::move(name), argument()};
  }

 private:
  Argument argument() {
    if (take("(")) {
      lanes::ListArgument list;
      while (!take(")")) {
        list.elements.push_back(argument());
        take("|");
      }
      return {std::move(list)};
    }
    if (take("'")) {
      std::string word = until("'");
      take("'");
      return {std::move(word)};
    }
    const std::string word = until("[|); ");
    if (text_.starts_with("[")) return tensor(dtype(word));
    if (word == "None") return {};
    if (word == "True" || word == "False") return {word == "True"};
    if (word == "layout") return {lanes::LayoutArgument{}};
    if (word == "device") return {lanes::DeviceArgument{}};
    if (word == "generator") return {lanes::GeneratorArgument{}};
    if (word.starts_with("dtype:")) return {lanes::DTypeArgument{dtype(word.substr(6))}};
    if (word.starts_with("format:")) {
      return {lanes::MemoryFormatArgument{
          static_cast<lanes::MemoryFormat>(std::atoi(word.c_str() + 7))}};
    }
    if (word.ends_with("j")) return {std::complex<double>(0, std::strtod(word.c_str(), nullptr))};
    if (word.find_first_of(".einf") != std::string::npos) {
      return {std::strtod(word.c_str(), nullptr)};
    }
    return {integer(word)};
  }

  Argument tensor(lanes::DType type) {
    OperandTensor made;
    made.dtype = type;
    take("[");
    made.sizes = integers(";@]");
    made.make_dense();
    if (take(";")) made.strides = integers("@]");
    if (take("@")) made.offset = integer(until("]"));
    LW_CHECK(take("]"), "a tensor's sizes end");
    if (take("{")) {
      made.contents = integers("}");
      take("}");
    }
    if (take("~computed")) made.route = Route::computed;
    if (take("~disguised")) made.route = Route::disguised;
    tensors_.push_back(std::move(made));
    return {lanes::ValueArgument{static_cast<uint32_t>(tensors_.size() - 1)}};
  }

  std::vector<int64_t> integers(std::string_view stops) {
    std::vector<int64_t> numbers;
    const std::string both = std::string(stops) + ",";
    while (!done() && stops.find(text_.front()) == std::string_view::npos) {
      numbers.push_back(integer(until(both)));
      take(",");
    }
    return numbers;
  }

  static int64_t integer(const std::string& word) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    LW_CHECK(error == std::errc() && end == word.data() + word.size(), word);
    return number;
  }

  static lanes::DType dtype(std::string_view word) {
    for (uint8_t type = 0; type < lanes::kDTypeCount; ++type) {
      if (word == lanes::dtype_name(static_cast<lanes::DType>(type))) {
        return static_cast<lanes::DType>(type);
      }
    }
    LW_CHECK(false, "a dtype");
    return lanes::DType::float32;
  }

  std::string_view text_;
  std::vector<OperandTensor>& tensors_;
};

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::string tensor_text(const OperandTensor& tensor) {
  OperandTensor dense = tensor;
  dense.make_dense();
  std::string text =
      std::string(lanes::dtype_name(tensor.dtype)) + "[" + numbers_text(tensor.sizes);
  if (dense.strides != tensor.strides) text += ";" + numbers_text(tensor.strides);
  if (tensor.offset != 0) text += "@" + std::to_string(tensor.offset);
  text += "]";
  if (!tensor.contents.empty()) text += "{" + numbers_text(tensor.contents) + "}";
  if (tensor.route == Route::computed) text += "~computed";
  if (tensor.route == Route::disguised) text += "~disguised";
  return text;
}

std::string real_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  std::string word(text, end);
  return word.find_first_of(".e") == std::string::npos ? word + ".0" : word;
}

struct ArgumentText {
  const OperandCall& call;

  std::string operator()(const lanes::NoneArgument&) const { return "None"; }
  std::string operator()(const lanes::ValueArgument& value) const {
    return tensor_text(call.tensors.at(value.value));
  }
  std::string operator()(int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return real_text(number); }
  std::string operator()(bool truth) const { return truth ? "True" : "False"; }
  std::string operator()(const std::string& word) const { return "'" + word + "'"; }
  std::string operator()(const lanes::DTypeArgument& type) const {
    return std::string("dtype:") + lanes::dtype_name(type.dtype);
  }
  std::string operator()(const lanes::MemoryFormatArgument& format) const {
    return "format:" + std::to_string(static_cast<int>(format.format));
  }
  std::string operator()(const lanes::LayoutArgument&) const { return "layout"; }
  std::string operator()(const lanes::DeviceArgument&) const { return "device"; }
  std::string operator()(const lanes::GeneratorArgument&) const { return "generator"; }
  std::string operator()(std::complex<double> number) const {
    return real_text(number.imag()) + "j";
  }
  std::string operator()(const lanes::ListArgument& list) const {
    std::string text;
    for (const Argument& element : list.elements) {
      text += (text.empty() ? "" : "|") + std::visit(*this, element.content);
    }
    return "(" + text + ")";
  }
};

}  // namespace

int64_t OperandTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

int64_t OperandTensor::extent() const {
  if (elements() == 0) return 0;
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return last + 1;
}

void OperandTensor::make_dense() {
  strides.assign(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
  }
}

OperandCall parse_call(std::string_view line) {
  OperandCall call;
  Reader reader(line, call.tensors);
  call.op = reader.until(" ");
  reader.take(" ");
  while (!reader.done()) {
    call.arguments.push_back(reader.named());
    reader.take(" ; ");
  }
  return call;
}

std::string call_text(const OperandCall& call) {
  std::string text = call.op;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const lanes::NamedArgument& given = call.arguments[i];
    text += i == 0 ? " " : " ; ";
    if (!given.name.empty()) text += given.name + "=";
    text += std::visit(ArgumentText{call}, given.argument.content);
  }
  return text;
}

}  // namespace laneway::testing

#include "tests/service/synthetic/synthetic_operators.h"

#include <algorithm>
#include <cmath>

namespace laneway::testing {
namespace {

Status multiply_by_number(const OperatorCall& call) {
  std::transform(call.given[0].begin(), call.given[0].end(), call.result.begin(),
                 [&](float x) { return x * static_cast<float>(call.number); });
  return {};
}

Status clone(const OperatorCall& call) {
  std::copy(call.given[0].begin(), call.given[0].end(), call.result.begin());
  return {};
}

Status empty_like(const OperatorCall&) { return {}; }

Status add(const OperatorCall& call) {
  std::transform(call.given[0].begin(), call.given[0].end(), call.given[1].begin(),
                 call.result.begin(), [](float a, float b) { return a + b; });
  return {};
}

Status add_in_place(const OperatorCall& call) {
  std::transform(call.result.begin(), call.result.end(), call.given[1].begin(), call.result.begin(),
                 [](float a, float b) { return a + b; });
  return {};
}

// Element i of the result is element index[i] of the first argument; indices come as floats.
Status take(const OperatorCall& call) {
  const auto size = static_cast<float>(call.given[0].size());
  for (const float index : call.given[1]) {
    if (index >= 0 && index < size) continue;
    return Error{ErrorCode::invalid_argument, "index " + std::to_string(index) +
                                                  " is out of range: there are " +
                                                  std::to_string(call.given[0].size())};
  }
  for (size_t i = 0; i < call.result.size(); ++i) {
    call.result[i] = call.given[0][static_cast<size_t>(call.given[1][i])];
  }
  return {};
}

Status bernoulli_in_place(const OperatorCall& call) {
  for (float& x : call.result) {
    *call.random = *call.random * 6364136223846793005ULL + 1442695040888963407ULL;
    x = static_cast<double>(*call.random >> 11) * 0x1p-53 < call.number ? 1.0F : 0.0F;
  }
  return {};
}

// Of a matrix of one element.
Status cholesky(const OperatorCall& call) {
  if (!(call.given[0][0] > 0)) {
    return Error{ErrorCode::invalid_argument, "cholesky: the matrix is not positive-definite"};
  }
  call.result[0] = std::sqrt(call.given[0][0]);
  return {};
}

constexpr OperatorRow kOperators[] = {
    {"aten::mul.Scalar", 1, false, &multiply_by_number},
    {"aten::clone", 1, false, &clone},
    {"aten::empty_like", 1, false, &empty_like},
    {"aten::add.Tensor", 2, false, &add},
    {"aten::add_.Tensor", 2, false, &add_in_place},
    {"aten::take", 2, false, &take},
    {"aten::cholesky", 1, false, &cholesky},
    {"aten::bernoulli_.float", 1, true, &bernoulli_in_place},
};

}  // namespace

const OperatorRow* find_operator(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                         [&](const OperatorRow& row) { return name == row.name; });
  return found == std::end(kOperators) ? nullptr : found;
}

}  // namespace laneway::testing

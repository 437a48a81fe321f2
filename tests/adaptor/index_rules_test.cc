// Shows that the table of rules is what torch's operators do: every operator of it runs with
// integers at both ends of its range, and with one beyond either end is refused, in two ways: as an
// input, before the iteration, and as the result of another node, by the operator itself or, for
// those that do not look, just before it. (Those would read or write beyond their tensors; with the
// rule they never run.)
#include "adaptor/checks/index_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/adaptor/graph_rig.h"
#include "tests/adaptor/index_cases.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::DType;
using lanes::IterationOutcome;
using lanes::ValueIndex;
using testing::arg;
using testing::GraphBuilder;
using testing::GraphRig;
using ::testing::HasSubstr;
using testing::IndexCase;

// One iteration of the case with `value` among otherwise right indices. `computed`: another node
// gives the indices.
lanes::IterationReport run_case(const IndexCase& tried, int64_t value, bool computed) {
  GraphBuilder b("case", lanes::GraphKind::inference);
  const ValueIndex given = b.input(tried.sizes, DType::int64);
  ValueIndex index = given;
  for (int twice = 0; computed && twice < 2; ++twice) {
    index = b.compute("aten::bitwise_not", {arg(index)}, tried.sizes, DType::int64);
  }
  tried.build(b, index);
  const lanes::Graph graph = b.finish();
  GraphRig rig(graph, testing::builder_image());
  std::vector<std::vector<std::byte>> bytes;
  std::vector<lanes::InputView> inputs;
  for (const ValueIndex input : graph.inputs) {
    bytes.emplace_back(graph.storages[graph.values[input].storage].bytes);
    inputs.push_back({.data = bytes.back().data(), .bytes = bytes.back().size()});
  }
  auto* indices = reinterpret_cast<int64_t*>(bytes[0].data());
  indices[bytes[0].size() / sizeof(int64_t) - 1] = value;
  return rig.run(inputs, {});
}

class IndexRules : public ::testing::TestWithParam<IndexCase> {};

TEST_P(IndexRules, AreThoseOfTheOperator) {
  const IndexCase& tried = GetParam();
  std::vector<int64_t> right = {tried.low, tried.high};
  if (tried.also) right.push_back(*tried.also);
  const std::vector<int64_t> wrong = {tried.low - 1, tried.high + 1, INT64_MAX, INT64_MIN,
                                      int64_t{1} << 40};
  for (const bool computed : {false, true}) {
    for (const int64_t value : right) {
      const auto report = run_case(tried, value, computed);
      EXPECT_EQ(report.outcome, IterationOutcome::completed)
          << value << (computed ? " computed: " : ": ") << report.error.message;
    }
    for (const int64_t value : wrong) {
      const auto report = run_case(tried, value, computed);
      EXPECT_EQ(report.outcome, IterationOutcome::failed_clean)
          << value << (computed ? " computed" : "");
      if (computed) continue;
      EXPECT_THAT(report.error.message, HasSubstr("input 0 (int64"));
      EXPECT_THAT(report.error.message, HasSubstr(" has " + std::to_string(value) + " at ["));
      EXPECT_THAT(report.error.message, HasSubstr("where " + tried.op + " takes "));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, IndexRules, ::testing::ValuesIn(testing::index_cases()),
                         [](const auto& tried) {
                           std::string name =
                               tried.param.op.substr(6) + "_" + std::to_string(tried.index);
                           for (char& letter : name) {
                             if (letter == '.') letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace laneway::adaptor

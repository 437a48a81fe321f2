// Shows that arithmetic over numbers gives what Python gives, to the last bit: integers stay
// integers, divisions and powers are doubles. Small graphs of numbers are run for real and compared
// with figures computed by Python.
#include "adaptor/operators/scalar_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/adaptor/graph_rig.h"
#include "tests/support/graph_builder.h"

namespace laneway::adaptor {
namespace {

using lanes::ValueKind;
using testing::arg;
using testing::GraphBuilder;
using testing::GraphRig;
using ::testing::HasSubstr;

lanes::InputView integer(int64_t value) { return {nullptr, 0, 0, value}; }
lanes::InputView real(double value) { return {nullptr, 0, value, 0}; }

// Runs `op` over one or two number inputs of these kinds.
lanes::IterationReport apply(const std::string& op, ValueKind result, void* out,
                             std::vector<std::pair<ValueKind, lanes::InputView>> operands) {
  GraphBuilder b("numbers", lanes::GraphKind::inference);
  std::vector<lanes::NamedArgument> arguments;
  std::vector<lanes::InputView> inputs;
  for (const auto& [kind, view] : operands) {
    arguments.push_back(arg(b.number_input(kind)));
    inputs.push_back(view);
  }
  b.output(b.number(op, std::move(arguments), result));
  GraphRig rig(b.finish(), {});
  const lanes::OutputView output{.data = out, .bytes = 8};
  return rig.run(inputs, {&output, 1});
}

int64_t of_integers(const std::string& op, int64_t a, int64_t b) {
  int64_t result = 0;
  const auto report = apply(op, ValueKind::integer, &result,
                            {{ValueKind::integer, integer(a)}, {ValueKind::integer, integer(b)}});
  EXPECT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
  return result;
}

double of_reals(const std::string& op, double a, double b) {
  double result = 0;
  const auto report =
      apply(op, ValueKind::real, &result, {{ValueKind::real, real(a)}, {ValueKind::real, real(b)}});
  EXPECT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
  return result;
}

TEST(ScalarCall, KeepsIntegersWhereTheyAreExact) {
  // As doubles these would lose their last bit.
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(of_integers("scalar::add", large, 2), 9007199254740995);
  EXPECT_EQ(of_integers("scalar::sub", large, -2), 9007199254740995);
  EXPECT_EQ(of_integers("scalar::mul", large, 3), 27021597764222979);
  EXPECT_EQ(of_integers("scalar::min", large, large - 1), large - 1);
  EXPECT_EQ(of_integers("scalar::max", large - 1, large), large);
  int64_t negated = 0;
  apply("scalar::neg", ValueKind::integer, &negated, {{ValueKind::integer, integer(large)}});
  EXPECT_EQ(negated, -large);
}

TEST(ScalarCall, ComputesInDoublesElsewhere) {
  EXPECT_EQ(of_reals("scalar::add", 0.1, 0.2), 0.30000000000000004);
  EXPECT_EQ(of_reals("scalar::sub", 1.0, 0.9), 0.09999999999999998);
  EXPECT_EQ(of_reals("scalar::mul", 0.1, 3.0), 0.30000000000000004);
  EXPECT_EQ(of_reals("scalar::div", 1.0, 3.0), 0.3333333333333333);
  EXPECT_EQ(of_reals("scalar::pow", 0.999, 1000.0), 0.36769542477096373);
  EXPECT_EQ(of_reals("scalar::min", 0.5, -3.25), -3.25);
  EXPECT_EQ(of_reals("scalar::max", 0.5, -3.25), 0.5);
  double quotient = 0;
  apply("scalar::div", ValueKind::real, &quotient,
        {{ValueKind::integer, integer(7)}, {ValueKind::integer, integer(2)}});
  EXPECT_EQ(quotient, 3.5);
  double mixed = 0;
  apply("scalar::mul", ValueKind::real, &mixed,
        {{ValueKind::integer, integer(3)}, {ValueKind::real, real(0.1)}});
  EXPECT_EQ(mixed, 0.30000000000000004);
  double root = 0;
  apply("scalar::sqrt", ValueKind::real, &root, {{ValueKind::real, real(2)}});
  EXPECT_EQ(root, 1.4142135623730951);
}

TEST(ScalarCall, PassesInfinitiesAndNansOn) {
  EXPECT_EQ(of_reals("scalar::div", 1.0, 0.0), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(of_reals("scalar::sub", INFINITY, INFINITY)));
  // As in Python: max(nan, 1.0) is nan and max(1.0, nan) is 1.0.
  for (const char* op : {"scalar::min", "scalar::max"}) {
    EXPECT_TRUE(std::isnan(of_reals(op, NAN, 1.0)));
    EXPECT_EQ(of_reals(op, 1.0, NAN), 1.0);
  }
}

TEST(ScalarCall, FailsTheNodeWhenAnIntegerOverflows) {
  int64_t result = 0;
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const char* op : {"scalar::add", "scalar::mul"}) {
    const auto report =
        apply(op, ValueKind::integer, &result,
              {{ValueKind::integer, integer(most)}, {ValueKind::integer, integer(2)}});
    EXPECT_EQ(report.outcome, lanes::IterationOutcome::failed_clean);
    EXPECT_THAT(report.error.message, HasSubstr("exceeds 64 bits"));
  }
}

TEST(ScalarCall, ReadsANumberOutOfATensor) {
  GraphBuilder b("reads", lanes::GraphKind::inference);
  const auto single = b.input({}, lanes::DType::float32);
  const auto count = b.input({1}, lanes::DType::int64);
  const auto half = b.input({}, lanes::DType::float16);
  for (const auto& [value, kind] :
       {std::pair{single, ValueKind::real}, {count, ValueKind::integer}, {half, ValueKind::real}}) {
    b.output(b.number("aten::_local_scalar_dense", {arg(value)}, kind));
  }
  GraphRig rig(b.finish(), {});
  const float tenth = 0.1F;
  const int64_t many = 9007199254740993;
  const uint16_t one_and_a_half = 0x3E00;
  const lanes::InputView inputs[] = {{&tenth, 4}, {&many, 8}, {&one_and_a_half, 2}};
  double read_single = 0;
  int64_t read_count = 0;
  double read_half = 0;
  const lanes::OutputView outputs[] = {{&read_single, 8}, {&read_count, 8}, {&read_half, 8}};
  const auto report = rig.run(inputs, outputs);
  ASSERT_EQ(report.outcome, lanes::IterationOutcome::completed) << report.error.message;
  EXPECT_EQ(read_single, 0.10000000149011612);
  EXPECT_EQ(read_count, many);
  EXPECT_EQ(read_half, 1.5);
}

TEST(ScalarCall, RefusesWhatIsNoArithmeticOfNumbers) {
  const auto refusal = [](auto build) {
    GraphBuilder b("case", lanes::GraphKind::inference);
    build(b);
    const lanes::Graph graph = b.finish();
    const auto resolved = ScalarCall::resolve(graph, 0);
    return resolved ? std::string() : resolved.error().message;
  };
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.number("scalar::exec", {arg(b.number_input())}, ValueKind::real);
              }),
              HasSubstr("node 0 (scalar::exec): there is no such operation on numbers; from "
                        "train.py:1 in step"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.number("scalar::add", {arg(b.number_input())}, ValueKind::real);
              }),
              HasSubstr("takes 2 arguments and gives one number"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.number("scalar::neg", {arg(b.input({}))}, ValueKind::real);
              }),
              HasSubstr("argument of the wrong kind"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.number("aten::_local_scalar_dense", {arg(b.input({2}))}, ValueKind::real);
              }),
              HasSubstr("out of a tensor of one element only"));
  EXPECT_THAT(refusal([](GraphBuilder& b) {
                b.number("scalar::neg", {{"", {std::string("7")}}}, ValueKind::real);
              }),
              HasSubstr("neither a value nor a number"));
}

}  // namespace
}  // namespace laneway::adaptor

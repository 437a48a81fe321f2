// Shows that graphs which were made to lie are refused: marks where values should stand, sizes and
// offsets at the ends of their integers, views beyond a slot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lanes/graph/graph_check.h"
#include "lanes/graph/limits.h"
#include "tests/support/graph_builder.h"

namespace laneway::lanes {
namespace {

using testing::arg;
using ::testing::HasSubstr;

// Values and storages of the training graph: graph_check_test.cc.
std::string broken(const std::function<void(Graph&)>& damage) {
  Graph graph = testing::training_graph();
  damage(graph);
  const Status status = check_graph(graph);
  return status.ok() ? "accepted" : status.error().message;
}

// Whoever follows the argument would look far behind the table of values.
TEST(GraphLies, ArgumentsAreNotTheMarkOfNoValue) {
  EXPECT_THAT(broken([](Graph& g) { g.nodes[6].arguments[1] = arg(kNoValue); }),
              HasSubstr("argument 1 names no value; give None where there is none"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[9].arguments[1].argument = {ListArgument{{{ValueArgument{kNoValue}}}}};
              }),
              HasSubstr("argument 1 names no value"));
}

// Sizes that torch would multiply before it looks at the storage.
TEST(GraphLies, ViewsAtTheEndsOfTheirIntegersAreRefused) {
  const auto most = static_cast<int64_t>(limits::kMaxTensorBytes);
  EXPECT_THAT(broken([&](Graph& g) { g.values[8].storage_offset = most; }),
              HasSubstr("reaches to byte "));
  EXPECT_THAT(broken([&](Graph& g) { g.values[8].storage_offset = INT64_MAX; }),
              HasSubstr("offset 9223372036854775807 is not in 0 to"));
  EXPECT_THAT(broken([&](Graph& g) { g.values[8].strides = {INT64_MAX}; }),
              HasSubstr("stride 9223372036854775807 of dimension 0 is not in 0 to"));
  EXPECT_THAT(broken([&](Graph& g) {
                g.values[8].sizes.assign(64, 2);
                g.values[8].strides.assign(64, most);
              }),
              HasSubstr("value 8"));
  // A slot's view beyond its bytes, within those of the image.
  EXPECT_THAT(broken([](Graph& g) { g.values[4].sizes = {4}; }),
              HasSubstr("value 4 float32[4] reaches to byte 16 of storage 3, which has 12 bytes"));
}

}  // namespace
}  // namespace laneway::lanes

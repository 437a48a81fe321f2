// Shows that a job's description names the kind of every input and output as laneway.h says, and
// replaces names that are no UTF-8.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "service/api/job_form.h"

namespace laneway::service {
namespace {

JobForm form_with(const wire::GraphInfo& graph) {
  return {.name = "job", .job_class = JobClass::training, .slots = {}, .graphs = {graph}};
}

TEST(Describe, NamesTheKindOfEachInputAndOutput) {
  wire::GraphInfo graph;
  const std::string names[] = {"tensor", "integer", "real", "boolean"};
  const ValueKind kinds[] = {ValueKind::tensor, ValueKind::integer, ValueKind::real,
                             ValueKind::boolean};
  for (const ValueKind kind : kinds) {
    graph.inputs.push_back({.kind = kind, .bytes = 0, .name = {}});
    graph.outputs.push_back({.kind = kind, .bytes = 8});
  }
  const auto job = nlohmann::json::parse(describe_json(form_with(graph)));
  const auto& described = job.at("graphs").at(0);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(described.at("inputs").at(i).at("kind"), names[i]);
    EXPECT_EQ(described.at("outputs").at(i).at("kind"), names[i]);
  }
}

TEST(Describe, ReplacesWhatIsNoUtf8) {
  wire::GraphInfo graph;
  graph.name = "bad \xff end";
  const auto job = nlohmann::json::parse(describe_json(form_with(graph)));
  EXPECT_EQ(job.at("graphs").at(0).at("name"), "bad \xef\xbf\xbd end");
}

}  // namespace
}  // namespace laneway::service

// Shows what the registry says of jobs whose client captured with another torch than the worker
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "service/broker/job_registry.h"
#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using testing::HasSubstr;
using testing::Not;

class RegistryTorchTest : public testing::Test, protected RegistryRig {
 protected:
  std::string failure(uint64_t session, uint64_t number) {
    return get<wire::Failure>(session, number).message;
  }
};

// What one torch knows and the other does not is refused by the worker, which cannot know why.
TEST_F(RegistryTorchTest, ARefusedGraphOfAnotherTorchIsRefusedWithBothVersions) {
  const auto refused = [this](uint64_t number, const std::string& client) {
    wire::CreateJob request = job("refused", 640);
    request.torch_version = client;
    registry().create(from(1, number), request, files(1));
    return failure(1, number);
  };
  torch = {.built = "2.11.0", .running = "2.11.0"};
  restart_worker();
  EXPECT_THAT(refused(1, "2.15.0+cu132"),
              HasSubstr("; the graph was captured with torch 2.15.0+cu132, and the service runs "
                        "torch 2.11.0: "));
  EXPECT_THAT(refused(2, "2.11.4+cpu"), Not(HasSubstr("captured")));
  EXPECT_THAT(refused(3, ""), Not(HasSubstr("captured"))) << "the client did not say";
  torch = {};
  restart_worker();
  EXPECT_THAT(refused(4, "2.15.0"), Not(HasSubstr("captured"))) << "the worker has none";
}

TEST_F(RegistryTorchTest, AGraphThatIsAddedIsRefusedWithBothVersionsToo) {
  torch = {.built = "2.11.0", .running = "2.11.0"};
  restart_worker();
  wire::CreateJob request = job("one graph", 640);
  request.torch_version = "2.15.0";
  registry().create(from(1, 1), request, files(1));
  EXPECT_EQ(get<wire::JobCreated>(1, 1).job, 1u);
  start();  // what the client said is known to the next broker
  registry().parts().add_graph(from(1, 2), {.job = 1}, files(1));
  EXPECT_THAT(failure(1, 2), HasSubstr("captured with torch 2.15.0, and the service runs torch"));
}

TEST_F(RegistryTorchTest, AVersionOfTorchThatIsNoneIsRefused) {
  wire::CreateJob request = job("odd", 640);
  request.torch_version = "2.11\n";
  registry().create(from(1, 1), request, files(1));
  EXPECT_THAT(failure(1, 1), HasSubstr("is no version"));
  EXPECT_TRUE(held.keys().empty());
}

}  // namespace
}  // namespace laneway::service

// What the options of a job become in the registry: each reaches worker and core, and outlives both
// and the broker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/api/option_fields.h"
#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

class RegistryOptionsTest : public testing::Test, protected RegistryRig {};

// Also an option that is added later: every field of the struct differs from its default.
TEST_F(RegistryOptionsTest, EveryOptionOfAJobReachesWorkerAndCoreAlsoAfterARestart) {
  wire::CreateJob request = job("", 640);
  request.spec.options = distinct_options();
  registry().create(from(1, 1), request, files(1));
  get<wire::JobCreated>(1, 1);
  const auto arrived = [&] { return registry().snapshot().jobs.at(0).options; };
  EXPECT_EQ(worker.jobs.at(JobId(1)).message.spec.options, request.spec.options);
  EXPECT_EQ(arrived(), request.spec.options);
  restart_worker();
  settle();
  EXPECT_EQ(worker.jobs.at(JobId(1)).message.spec.options, request.spec.options);
  EXPECT_EQ(arrived(), request.spec.options) << "the worker's report has another name";
  start();
  settle();
  EXPECT_EQ(arrived(), request.spec.options) << "as held at the supervisor";
}

// A deadline counts from the first offer: neither a new worker nor a new broker begins it anew.
TEST_F(RegistryOptionsTest, TheTimeOfItsOfferOutlivesWorkerAndBroker) {
  clock.advance(seconds(1));
  const TimePoint offered = clock.now();
  create(1, 1, "first", 640);
  const auto known = [&] { return registry().snapshot().jobs.at(0).offered_at; };
  EXPECT_EQ(known(), offered);
  clock.advance(seconds(3));
  restart_worker();
  settle();
  EXPECT_EQ(known(), offered);
  clock.advance(seconds(3));
  start();
  settle();
  EXPECT_EQ(known(), offered) << "as held at the supervisor";
}

}  // namespace
}  // namespace laneway::service

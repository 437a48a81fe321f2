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

JobChanges changes(const char* text) { return parse_job_changes(text).value(); }

// As a client's word after a restart: what the supervisor holds is what was set.
TEST_F(RegistryOptionsTest, WhatIsSetReachesTheCoreAndOutlivesWorkerAndBroker) {
  create(1, 1, "first", 640);
  registry().set(from(2, 1), {.job = "1", .changes = changes("weight=2 deadline=9")}, false);
  get<wire::Done>(2, 1);
  const auto known = [&] { return registry().snapshot().jobs.at(0).options; };
  const auto is_set = [&] {
    return known().weight == 2.0 && known().deadline == seconds(9) && known().name == "first";
  };
  EXPECT_TRUE(is_set());
  restart_worker();
  settle();
  EXPECT_TRUE(is_set()) << "a new worker";
  start();
  settle();
  EXPECT_TRUE(is_set()) << "a new broker";
}

TEST_F(RegistryOptionsTest, ItsUserAndOperatorsSetOptionsAndNobodyElse) {
  create(1, 1, "first", 640);
  registry().set(from(2, 1, /*user=*/7), {.job = "first", .changes = changes("weight=2")}, false);
  EXPECT_THAT(get<wire::Failure>(2, 1).message, testing::HasSubstr("set options of"));
  registry().set(from(2, 2, 7), {.job = "first", .changes = changes("weight=3")}, true);
  get<wire::Done>(2, 2);
  EXPECT_EQ(registry().snapshot().jobs.at(0).options.weight, 3.0);
  // What another program than ours may send.
  JobChanges wrong = changes("weight=4");
  wrong.values.weight = -1;
  registry().set(from(2, 3), {.job = "first", .changes = wrong}, false);
  EXPECT_THAT(get<wire::Failure>(2, 3).message, testing::HasSubstr("weight = -1"));
  EXPECT_EQ(registry().snapshot().jobs.at(0).options.weight, 3.0);
}

TEST_F(RegistryOptionsTest, ANumberIsNeverTheNameOfAnotherJob) {
  create(1, 1, "first", 640);
  create(1, 2, "1", 640);
  registry().set(from(2, 1), {.job = "1", .changes = changes("weight=2")}, false);
  get<wire::Done>(2, 1);
  EXPECT_EQ(registry().snapshot().jobs.at(0).options.weight, 2.0) << "job 1, not the one named so";
  registry().set(from(2, 2), {.job = "name:1", .changes = changes("weight=5")}, false);
  get<wire::Done>(2, 2);
  EXPECT_EQ(registry().snapshot().jobs.at(1).options.weight, 5.0);
  registry().kill(from(2, 3), {.job = "2222222222222222222222"}, true);
  EXPECT_THAT(get<wire::Failure>(2, 3).message, testing::HasSubstr("there is no job"));
}

}  // namespace
}  // namespace laneway::service

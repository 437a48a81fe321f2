// Shows that a user has its quota and not more, that all together have theirs, that the operators'
// part is nobody else's, that what goes is given back, and that a refusal names what was asked for.
#include "service/broker/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "service/broker/limits.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kAnn = 4'000'001;  // no operator, whoever runs the test
constexpr uint32_t kBob = 4'000'002;

Quotas::Limits limits_of(Quota quota) {
  Quotas::Limits all;
  all.fill(quota);
  return all;
}

TEST(Quotas, AUserHasItsQuotaAndGivesItBack) {
  Quotas quotas(limits_of({.per_user = 3, .in_all = 100, .reserved = 0}));
  std::vector<Quotas::Share> shares;
  for (int i = 0; i < 3; ++i) {
    auto share = quotas.take(Resource::jobs, kAnn, 1);
    ASSERT_TRUE(share.ok());
    shares.push_back(std::move(share).value());
  }
  const auto fourth = quotas.take(Resource::jobs, kAnn, 1);
  ASSERT_FALSE(fourth.ok());
  EXPECT_EQ(fourth.error().code, ErrorCode::refused);
  EXPECT_EQ(fourth.error().message,
            "user 4000001 has 3 jobs and wants 1 more; the limit of one user is 3 (jobs): close "
            "some first");
  EXPECT_TRUE(quotas.take(Resource::jobs, kBob, 3).ok());      // another user has its own
  EXPECT_TRUE(quotas.take(Resource::sessions, kAnn, 3).ok());  // another resource, too
  shares.pop_back();
  EXPECT_TRUE(quotas.take(Resource::jobs, kAnn, 1).ok());
}

TEST(Quotas, ThePartOfTheOperatorsIsNobodyElses) {
  Quotas quotas(limits_of({.per_user = 512, .in_all = 1'024, .reserved = 8}));
  const auto first = quotas.take(Resource::sessions, kAnn, 512);
  ASSERT_TRUE(first.ok());
  const auto second = quotas.take(Resource::sessions, kBob, 504);
  ASSERT_TRUE(second.ok());
  const auto more = quotas.take(Resource::sessions, kBob, 1);
  ASSERT_FALSE(more.ok());
  EXPECT_THAT(more.error().message, HasSubstr("its limit is 1024, of which 8 are the operators'"));
  EXPECT_TRUE(quotas.take(Resource::sessions, 0, 8).ok());
  EXPECT_TRUE(quotas.take(Resource::sessions, ::geteuid(), 8).ok());
  EXPECT_FALSE(quotas.take(Resource::sessions, 0, 9).ok());
}

TEST(Quotas, TheDefaultsLeaveOperatorsASeatWhateverTwoUsersHold) {
  Quotas quotas;
  std::vector<Quotas::Share> shares;
  for (const uint32_t user : {kAnn, kBob}) {
    for (int i = 0; i < 2'000; ++i) {
      auto share = quotas.take(Resource::sessions, user, 1);
      if (share) shares.push_back(std::move(share).value());
    }
  }
  EXPECT_GT(shares.size(), limits::kMaxSessionsPerUser);
  EXPECT_TRUE(quotas.take(Resource::sessions, 0, 1).ok());
}

TEST(Quotas, WhatWasLetInBeforeIsKeptAndCounted) {
  Quotas quotas(limits_of({.per_user = 4, .in_all = 4, .reserved = 0}));
  {
    const Quotas::Share kept = quotas.keep(Resource::held_bytes, kAnn, 10);
    EXPECT_EQ(quotas.facts().at(static_cast<size_t>(Resource::held_bytes)).used, 10u);
    EXPECT_FALSE(quotas.take(Resource::held_bytes, kAnn, 1).ok());
    EXPECT_FALSE(quotas.take(Resource::held_bytes, kBob, 1).ok());
  }
  EXPECT_TRUE(quotas.take(Resource::held_bytes, kAnn, 4).ok());
}

TEST(Quotas, AStatusHasEachLimitWithWhatIsUsedOfItAndByWhom) {
  Quotas quotas(limits_of({.per_user = 60, .in_all = 100, .reserved = 5}));
  const Quotas::Share of_ann = quotas.keep(Resource::jobs, kAnn, 7);
  const Quotas::Share more_of_ann = quotas.keep(Resource::jobs, kAnn, 1);
  const Quotas::Share of_bob = quotas.keep(Resource::jobs, kBob, 2);
  const std::vector<wire::LimitFacts> all = quotas.facts();
  ASSERT_EQ(all.size(), kResources);
  const wire::LimitFacts& jobs = all.at(static_cast<size_t>(Resource::jobs));
  EXPECT_EQ(jobs.name, "jobs");
  EXPECT_EQ(jobs.used, 10u);
  EXPECT_EQ(jobs.limit, 100u);
  EXPECT_EQ(jobs.per_user, 60u);
  EXPECT_EQ(jobs.of_operators, 5u);
  ASSERT_EQ(jobs.users.size(), 2u);
  EXPECT_EQ(jobs.users[0].user, "4000001") << "no name is known of it";
  EXPECT_EQ(jobs.users[0].used, 8u);
  EXPECT_EQ(jobs.users[1].used, 2u);
  EXPECT_EQ(all.at(static_cast<size_t>(Resource::sessions)).used, 0u);
}

TEST(Quotas, SumsAreThoseOfTheSharesThatLive) {
  Random random(laneway::testing::seed_from_environment(7));
  Quotas quotas(limits_of({.per_user = 60, .in_all = 100, .reserved = 0}));
  struct Live {
    uint32_t user;
    uint64_t amount;
    Quotas::Share share;
  };
  std::vector<Live> live;
  for (int step = 0; step < 2'000; ++step) {
    const uint32_t user = kAnn + static_cast<uint32_t>(random.below(3));
    const uint64_t amount = random.below(20);
    uint64_t all = 0;
    uint64_t of_user = 0;
    for (const Live& one : live) {
      all += one.amount;
      if (one.user == user) of_user += one.amount;
    }
    auto share = quotas.take(Resource::descriptors, user, amount);
    ASSERT_EQ(share.ok(), of_user + amount <= 60 && all + amount <= 100);
    if (share) live.push_back({user, amount, std::move(share).value()});
    if (!live.empty() && random.below(2) == 0) {
      std::swap(live[random.below(live.size())], live.back());
      live.pop_back();
    }
  }
}

}  // namespace
}  // namespace laneway::service

// Shows that what one user's jobs keep is bounded before anything of them is made, that others are
// not touched by it, that it is given back with the jobs, and that a new broker counts what the one
// before let in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/broker/limits.h"
#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kAnn = 4'000'001;
constexpr uint32_t kBob = 4'000'002;
constexpr uint64_t kHeldBytes = 512u << 10;  // of one user, here

class RegistryQuotas : public RegistryRig, public ::testing::Test {
 protected:
  RegistryQuotas() {
    limits[static_cast<size_t>(Resource::held_bytes)] = {
        .per_user = kHeldBytes, .in_all = 2 * kHeldBytes, .reserved = 0};
    start();
  }
  // A job whose note has about 64 KiB of names.
  static wire::CreateJob wordy() {
    wire::CreateJob request = job("wordy", 64);
    request.spec.slots.assign(
        256, {std::string(limits::kMaxSlotNameBytes, 's'), SlotKind::parameter, 0});
    return request;
  }
  wire::LimitFacts row(Resource resource) {
    return quotas().facts().at(static_cast<size_t>(resource));
  }
  uint64_t held_bytes() { return row(Resource::held_bytes).used.value(); }
};

TEST_F(RegistryQuotas, ASlotNameIsBounded) {
  wire::CreateJob request = job("one", 640);
  request.spec.slots[0].name = std::string(limits::kMaxSlotNameBytes, 'n');
  registry().create(from(1, 1), request, files(1));
  get<wire::JobCreated>(1, 1);
  request.spec.slots[0].name += "n";
  registry().create(from(1, 2), request, files(1));
  const auto failure = get<wire::Failure>(1, 2);
  EXPECT_EQ(failure.code, ErrorCode::refused);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("has 257 bytes; the limit is 256"),
                                     HasSubstr("'nnnn"), HasSubstr("..'")));
}

TEST_F(RegistryQuotas, NamesOfOneUserFillItsPartAndNobodyElses) {
  uint64_t number = 0;
  while (true) {
    ASSERT_LT(++number, 100u);
    registry().create(from(1, number, kAnn), wordy(), files(1));
    settle();
    if (std::holds_alternative<wire::Failure>(answers[{1, number}].reply)) break;
  }
  const auto failure = get<wire::Failure>(1, number);
  EXPECT_EQ(failure.code, ErrorCode::refused);
  EXPECT_THAT(failure.message,
              AllOf(HasSubstr("user 4000001"), HasSubstr("the limit of one user is 512 KiB"),
                    HasSubstr("give slots shorter names")));
  EXPECT_LE(held_bytes(), kHeldBytes);
  EXPECT_GT(held_bytes(), kHeldBytes / 2);
  registry().create(from(2, 1, kBob), wordy(), files(1));
  get<wire::JobCreated>(2, 1);

  // A new broker counts the same, and refuses the same.
  const uint64_t before = held_bytes();
  const uint64_t open = row(Resource::descriptors).used.value();
  start();
  settle();
  EXPECT_EQ(held_bytes(), before);
  EXPECT_EQ(row(Resource::descriptors).used, open);
  registry().create(from(1, number + 1, kAnn), wordy(), files(1));
  get<wire::Failure>(1, number + 1);

  // What ends is given back.
  registry().close(from(1, number + 2, kAnn), {.job = 1});
  get<wire::Done>(1, number + 2);
  registry().create(from(1, number + 3, kAnn), wordy(), files(1));
  get<wire::JobCreated>(1, number + 3);
}

TEST_F(RegistryQuotas, NothingIsCountedOfJobsThatAreGone) {
  registry().create(from(1, 1, kAnn), job("one", 640, true), files(2));
  const uint64_t number = get<wire::JobCreated>(1, 1).job;
  registry().parts().add_graph(from(1, 2, kAnn), {.job = number}, files(1));
  get<wire::GraphAdded>(1, 2);
  registry().parts().add_segment(from(1, 3, kAnn),
                                 {.job = number, .link = 1, .segment = 5, .bytes = 4096}, files(1));
  get<wire::Done>(1, 3);
  // Two graphs, a link and a segment; the first bytes went when the image was placed.
  EXPECT_EQ(row(Resource::descriptors).used, 2 + limits::kDescriptorsOfLink + 1);
  EXPECT_EQ(row(Resource::jobs).used, 1u);
  registry().create(from(1, 4, kAnn), job("refused", 640), files(1));  // by the worker
  get<wire::Failure>(1, 4);
  registry().close(from(1, 5, kAnn), {.job = number});
  get<wire::Done>(1, 5);
  for (const wire::LimitFacts& one : quotas().facts()) EXPECT_EQ(one.used, 0u) << one.name;
}

}  // namespace
}  // namespace laneway::service

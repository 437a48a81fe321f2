// Shows that no request is answered before what must outlive the broker is held; that what the
// supervisor has no room for is refused to its client, undone at the worker, and harms nobody else;
// and that a broker that dies in between leaves nothing half made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/job_changes.h"
#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

class RegistryHold : public RegistryRig, public ::testing::Test {
 protected:
  std::string refusal(uint64_t session, uint64_t number) {
    const auto failure = get<wire::Failure>(session, number);
    EXPECT_EQ(failure.code, ErrorCode::refused);
    return failure.message;
  }
  void expect_nothing_is_kept() {
    for (const wire::LimitFacts& one : quotas().facts()) EXPECT_EQ(one.used, 0u) << one.name;
    for (const std::string& key : held.keys()) EXPECT_EQ(key, "n");
    EXPECT_TRUE(worker.jobs.empty());
    EXPECT_TRUE(registry().empty());
  }
};

TEST_F(RegistryHold, NothingIsAnsweredBeforeItIsHeld) {
  held.answers = false;
  wire::CreateJob request = job("shared", 640);
  request.spec.options.shared = true;
  registry().create(from(1, 1), request, files(1));
  settle();
  EXPECT_TRUE(worker.jobs.contains(JobId(1))) << "it is sent meanwhile";
  EXPECT_FALSE(answered(1, 1));
  held.answers = true;
  const uint64_t id = get<wire::JobCreated>(1, 1).job;

  held.answers = false;
  registry().parts().attach(from(2, 1), {.name = "shared"});
  registry().parts().add_graph(from(1, 2), {.job = id}, files(1));
  registry().parts().add_segment(from(1, 3), {.job = id, .link = 1, .segment = 5, .bytes = 4096},
                                 files(1));
  settle();
  EXPECT_EQ(worker.jobs.at(JobId(id)).graphs.size(), 2u);
  EXPECT_FALSE(answered(2, 1) || answered(1, 2) || answered(1, 3));
  held.answers = true;
  get<wire::JobAttached>(2, 1);
  get<wire::GraphAdded>(1, 2);
  get<wire::Done>(1, 3);
}

TEST_F(RegistryHold, AJobThatFindsNoRoomIsRefusedAndNothingOfItIsLeft) {
  for (const char* key : {"j/1", "l/2/1"}) {
    held.no_room = {key};
    const uint64_t number = key[0] == 'j' ? 1 : 2;
    registry().create(from(1, number), job("unlucky", 640), files(1));
    EXPECT_THAT(refusal(1, number), HasSubstr(key));
    expect_nothing_is_kept();
  }
  held.no_room.clear();
  EXPECT_EQ(create(1, 3, "next", 640), 3u);
}

TEST_F(RegistryHold, WhoAttachesAndFindsNoRoomIsRefusedAndTheJobGoesOn) {
  const uint64_t id = create(1, 1, "shared", 640, true);
  held.no_room = {"l/1/2"};
  registry().parts().attach(from(2, 1), {.name = "shared"});
  EXPECT_THAT(refusal(2, 1), HasSubstr("l/1/2"));
  EXPECT_EQ(worker.jobs.at(JobId(id)).links.size(), 1u);
  held.no_room.clear();
  registry().parts().attach(from(2, 2), {.name = "shared"});
  EXPECT_EQ(get<wire::JobAttached>(2, 2).link, 3u) << "a number is not given twice";
  EXPECT_EQ(worker.jobs.at(JobId(id)).links.size(), 2u);
}

TEST_F(RegistryHold, AGraphOrSegmentThatFindsNoRoomIsRefusedAndDropped) {
  const uint64_t id = create(1, 1, "job", 640);
  held.no_room = {"g/1/1", "m/1/1/5"};
  registry().parts().add_graph(from(1, 2), {.job = id}, files(1));
  EXPECT_THAT(refusal(1, 2), HasSubstr("g/1/1"));
  registry().parts().add_segment(from(1, 3), {.job = id, .link = 1, .segment = 5, .bytes = 4096},
                                 files(1));
  EXPECT_THAT(refusal(1, 3), HasSubstr("m/1/1/5"));
  EXPECT_EQ(worker.jobs.at(JobId(id)).graphs.size(), 1u);
  EXPECT_TRUE(worker.jobs.at(JobId(id)).links.at(1).segments.empty());
  held.no_room.clear();
  registry().parts().add_graph(from(1, 4), {.job = id}, files(1));
  EXPECT_EQ(get<wire::GraphAdded>(1, 4).graph.number, 2u);
  registry().parts().add_segment(from(1, 5), {.job = id, .link = 1, .segment = 5, .bytes = 4096},
                                 files(1));
  get<wire::Done>(1, 5);
}

TEST_F(RegistryHold, ABrokerThatDiesBeforeItIsAnsweredLeavesTheJobToTheNext) {
  held.answers = false;
  registry().create(from(1, 1), job("job", 640), files(1));
  settle();
  start();
  registry().create(from(1, 1), job("job", 640), files(1));  // its client asks again
  EXPECT_EQ(get<wire::JobCreated>(1, 1).job, 1u) << "what was held needs no answer";
  EXPECT_EQ(worker.jobs.size(), 1u);
}

TEST_F(RegistryHold, ABrokerThatDiesBeforeARefusalLeavesNothing) {
  held.no_room = {"j/1"};
  held.answers = false;
  registry().create(from(1, 1), job("job", 640), files(1));
  settle();
  EXPECT_TRUE(worker.jobs.contains(JobId(1)));
  held.no_room.clear();
  held.answers = true;
  start();
  settle();
  expect_nothing_is_kept();
  registry().create(from(1, 1), job("job", 640), files(1));
  EXPECT_EQ(get<wire::JobCreated>(1, 1).job, 2u) << "a number is not given twice";
}

TEST_F(RegistryHold, ANoteThatChangesKeepsItsDescriptors) {
  registry().create(from(1, 1), job("job", 640, true), files(2));
  const uint64_t id = get<wire::JobCreated>(1, 1).job;
  settle();
  const auto entry = std::find_if(held.entries.begin(), held.entries.end(),
                                  [](const auto& one) { return one.key == "j/1"; });
  ASSERT_NE(entry, held.entries.end());
  EXPECT_EQ(entry->fds.size(), 1u) << "its first bytes went when the image was placed";
  registry().set(from(1, 2),
                 {.job = std::to_string(id), .changes = parse_job_changes("priority=7").value()},
                 false);
  get<wire::Done>(1, 2);
  EXPECT_EQ(entry->fds.size(), 1u);
  start();
  settle();
  EXPECT_EQ(registry().table().all().at(JobId(id)).record.spec.options.priority, 7);
}

}  // namespace
}  // namespace laneway::service

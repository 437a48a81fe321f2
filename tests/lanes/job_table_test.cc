// Shows that a job is found by its id, and no other one, whatever ids share a place: against a map,
// with ids that collide on purpose. And that whoever may have been changed is noted.
#include "lanes/job_table.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

Job job_of(uint64_t id) {
  Job job;
  job.view.id = JobId(id);
  job.view.arrival = id * 3;
  return job;
}

TEST(JobTable, FindsWhatIsInItAndNothingElse) {
  Random random(testing::seed_from_environment(612));
  JobTable table;
  std::map<uint64_t, const Job*> naive;
  std::vector<uint64_t> ids;  // few places, many ids in each
  for (uint64_t place = 1; place <= 5; ++place) {
    for (uint64_t round = 0; round < 6; ++round) ids.push_back(place + round * 4096);
  }
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t id = ids[random.below(ids.size())];
    if (naive.count(id) == 0) {
      naive[id] = &table.add(job_of(id));
    } else if (random.chance(0.5)) {
      table.remove(JobId(id));
      naive.erase(id);
    }
    ASSERT_EQ(table.size(), naive.size());
    const uint64_t asked = ids[random.below(ids.size())];
    const auto known = naive.find(asked);
    const Job* const found = table.find(JobId(asked));
    ASSERT_EQ(found, known == naive.end() ? nullptr : known->second) << "id " << asked;
    if (found == nullptr) continue;
    ASSERT_EQ(found->view.arrival, asked * 3);
  }
  EXPECT_EQ(table.find(JobId()), nullptr);
}

std::vector<uint64_t> noted(const JobTable& table) {
  EXPECT_FALSE(table.all_noted());
  std::vector<uint64_t> ids;
  for (const JobTable::Noted& one : table.noted()) {
    EXPECT_EQ(one.arrival, one.job.value() * 3);
    ids.push_back(one.job.value());
  }
  return ids;
}
using Ids = std::vector<uint64_t>;

TEST(JobTable, NotesWhoCameWentOrWasGivenToBeChanged) {
  JobTable table;
  EXPECT_TRUE(table.all_noted());
  for (const uint64_t id : {1, 2, 4098}) table.add(job_of(id));
  table.forget_noted();
  EXPECT_EQ(noted(table), Ids{});
  const JobTable& to_read = table;
  EXPECT_NE(to_read.find(JobId(1)), nullptr);
  for (const auto& [id, job] : to_read) EXPECT_EQ(job.view.id, id);
  EXPECT_EQ(noted(table), Ids{});
  // 2 and 4098 share a place.
  for (const uint64_t id : {2, 2, 4098}) EXPECT_NE(table.find(JobId(id)), nullptr);
  EXPECT_EQ(noted(table), (Ids{2, 4098})) << "each once";
  table.forget_noted();
  table.remove(JobId(1));
  table.add(job_of(1));
  EXPECT_EQ(noted(table), (Ids{1, 1})) << "one is gone, another one is there";
  table.forget_noted();
  table.find(JobId(2));
  EXPECT_EQ(noted(table), Ids{2}) << "noted again";
}

TEST(JobTable, NotesAllWhereAllMayBeChangedOrItWasManyAndNobodyAsked) {
  JobTable table;
  table.add(job_of(1));
  table.forget_noted();
  for (auto& [id, job] : table) job.ending = true;
  EXPECT_TRUE(table.all_noted());
  table.forget_noted();
  table.find(JobId(1));
  EXPECT_EQ(noted(table), Ids{1}) << "noted once more, though it was before";
  for (uint64_t i = 0; i < 2'000; ++i) {
    table.add(job_of(2));
    table.remove(JobId(2));
  }
  EXPECT_TRUE(table.all_noted());
  EXPECT_TRUE(table.noted().empty());
}

}  // namespace
}  // namespace laneway::lanes

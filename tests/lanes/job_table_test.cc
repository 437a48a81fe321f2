// Shows that a job is found by its id, and no other one, whatever ids share a place: against a map,
// with ids that collide on purpose.
#include "lanes/state/job_table.h"

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
  Changes changes;
  JobTable table(changes);
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

// More jobs than there are places at first: each is found where it was added.
TEST(JobTable, FindsEachOfTwentyThousand) {
  constexpr uint64_t kMany = 20'000;
  Changes changes;
  JobTable table(changes);
  std::vector<const Job*> added(kMany + 1);
  for (uint64_t id = 1; id <= kMany; ++id) {
    added[id] = &table.add(job_of(id));
    if (id % 3 == 0) table.remove(JobId(id));
  }
  for (uint64_t id = 1; id <= kMany; ++id) {
    ASSERT_EQ(table.find(JobId(id)), id % 3 == 0 ? nullptr : added[id]) << id;
  }
  EXPECT_EQ(table.find(JobId(kMany + 1)), nullptr);
}

}  // namespace
}  // namespace laneway::lanes

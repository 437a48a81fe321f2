// JobStore: jobs as the supervisor holds them for a broker that comes after this one: which key,
// note and descriptors belong to a job and its parts, and what they become when they are held no
// longer or come back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/broker/descriptor_store.h"
#include "service/broker/job_table.h"

namespace laneway::service {

class JobStore {
 public:
  // `store` must outlive the object.
  explicit JobStore(DescriptorStore& store) : store_(store) {}

  void hold_last_id(JobId last);
  // Each replaces what is held under the same key. An error when a descriptor finds no copy: it is
  // not held then, and nothing is said to the supervisor. Its answer comes later (take_…).
  Status hold_job(const JobEntry& job);
  Status hold_link(const JobEntry& job, uint32_t number);
  Status hold_graph(const JobEntry& job, uint32_t number);
  Status hold_segment(const JobEntry& job, uint32_t link, uint32_t segment);
  // The record changed; of the descriptors those that the job still has stay held.
  void note_job(const JobEntry& job);

  // The supervisor has answered everything up to `number`: what is held now.
  std::vector<JobPart> take_held(uint64_t number);
  // It found no room for this; nothing when `number` is none of a job's.
  std::optional<JobPart> take_refused(uint64_t number);

  // The job and all its parts.
  void release_job(const JobEntry& job);
  // The link and its segments.
  void release_link(const JobEntry& job, uint32_t number);
  void release_graph(JobId job, uint32_t number);
  void release_segment(JobId job, uint32_t link, uint32_t segment);

  // Puts into `table` what was held under `key` and came back. invalid_argument when key, note or
  // descriptors are none of a job's; nothing is changed then.
  Status restore(JobTable& table, const std::string& key, const std::vector<uint8_t>& note,
                 std::vector<Descriptor> fds);

 private:
  Status hold(const JobPart& part, const std::string& key, std::vector<std::byte> note,
              const std::vector<const Descriptor*>& fds);
  Status restore_part(JobTable& table, const std::string& key, const std::vector<uint64_t>& numbers,
                      const std::vector<std::byte>& note, std::vector<Descriptor> fds);

  DescriptorStore& store_;
  std::deque<std::pair<uint64_t, JobPart>> unanswered_;  // by the number of the hold, ascending
};

}  // namespace laneway::service

// JobStore: jobs as the supervisor holds them for a broker that comes after this one: which key,
// note and descriptors belong to a job and its parts, and what they become when they are held no
// longer or come back. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
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

  // What is held under the same key is replaced. A failure to copy a descriptor is logged.
  void hold_last_id(JobId last);
  void hold_job(const JobEntry& job);
  void hold_link(const JobEntry& job, uint32_t number);
  void hold_graph(const JobEntry& job, uint32_t number);
  void hold_segment(const JobEntry& job, uint32_t link, uint32_t segment);

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
  void hold(const std::string& key, std::vector<std::byte> note,
            const std::vector<const Descriptor*>& fds);
  Status restore_part(JobTable& table, const std::string& key, const std::vector<uint64_t>& numbers,
                      const std::vector<std::byte>& note, std::vector<Descriptor> fds);

  DescriptorStore& store_;
};

}  // namespace laneway::service

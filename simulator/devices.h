// Devices: which of several equal devices each job goes to. Pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "simulator/sim_job.h"

namespace laneway::simulator {

struct Devices {
  uint32_t count = 1;  // above 0
  uint32_t lanes = 1;  // of each; above 0
  Bytes room;          // of each, for a job: who needs more is refused there, and is no work
};

// By the job's number, a device from 0 on. When a job is submitted it goes to the device with the
// least work left, the first of equal ones. Work left is counted as if each lane were a server that
// takes jobs in the order of their submission: policies have no say in it, so all of them get the
// same jobs.
std::vector<uint32_t> devices_of(std::span<const SimJob> jobs, const Devices& devices);

}  // namespace laneway::simulator

// DryRun: one iteration of a graph over memory of its own, whose results nobody reads. It warms
// what libraries make at first use (kernels, caches, pages of their code), so that the first
// iteration of a worker that takes over is about as long as any other.
#pragma once

#include "adaptor/device/backend.h"
#include "adaptor/device/device_graph.h"
#include "adaptor/device/device_job.h"
#include "base/bytes.h"
#include "lanes/run/control_word.h"

namespace laneway::service {

// Image, lane, inputs and outputs are zeros and take at most `most` bytes together; a graph that
// needs more is not run, nor is any where the CPU does not reach the device's memory. The job's
// image has no place afterwards, and its random state is what it was. Ends early, at a node, when
// `word` says so. Requires: the job's image is not bound, and no graph with another context key
// runs meanwhile.
void dry_run(adaptor::Backend& backend, adaptor::DeviceJob& job, adaptor::DeviceGraph& graph,
             Bytes most, lanes::ControlWord& word);

}  // namespace laneway::service

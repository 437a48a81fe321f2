#include "tests/service/link_rig.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "adaptor/device/device_job.h"
#include "base/check.h"
#include "lanes/graph/graph_codec.h"
#include "memory/os/shared_memory.h"
#include "service/transport/ring.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::testing {

LinkRig::LinkRig(const Clock& clock)
    : backend_(adaptor::open_backend("host", {}).value()),
      context_{.backend = *backend_,
               .pool = nullptr,
               .capacity = mib(1),
               .events = events_,
               .clock = clock,
               .journal = nullptr,
               .recovery = nullptr} {}

service::JobHandle LinkRig::make_job(uint64_t id) {
  adaptor::MadeJob made =
      adaptor::make_job(*backend_, {}, lanes::encode_graph(doubling_graph(4)), mib(1)).value();
  service::NewJob job{.offer = {}, .torch = std::move(made), .initial = {}};
  job.offer.job = JobId(id);
  return std::make_shared<service::WorkerJob>(std::move(job));
}

LinkRig::Pair LinkRig::add_link(service::WorkerJob& job, uint32_t number) {
  auto memory = memory::SharedMemory::create("link-rig", Bytes(service::kRingBytes)).value();
  service::format_ring(*reinterpret_cast<service::RingMemory*>(memory.data()));
  int ends[2] = {-1, -1};
  LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
  service::Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto server = service::RingServer::attach(service::Descriptor(::dup(memory.descriptor())),
                                            wake.duplicate().value(), service::Descriptor(ends[1]))
                    .value();
  Pair pair;
  pair.link = std::make_shared<service::Link>(number, number, true, std::move(server));
  pair.client =
      service::RingClient::attach(service::Descriptor(::dup(memory.descriptor())), std::move(wake),
                                  service::Descriptor(ends[0]), context_.clock)
          .value();
  const service::BookkeepingLock lock(context_.mutex);
  job.links.push_back(pair.link);
  return pair;
}

}  // namespace laneway::testing

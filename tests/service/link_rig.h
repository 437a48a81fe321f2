// LinkRig: jobs with links to them, and the clients' sides of their rings, without a worker or a
// core: for the parts of the worker that wait for requests.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "adaptor/device/backend.h"
#include "base/clock.h"
#include "service/transport/ring_client.h"
#include "service/worker/jobs/link.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::testing {

class LinkRig {
 public:
  // The service's side of a link, and the client's.
  struct Pair {
    std::shared_ptr<service::Link> link;
    std::unique_ptr<service::RingClient> client;

    void submit() { client->submit({}, nullptr).value(); }
  };

  // The clock must outlive the rig.
  explicit LinkRig(const Clock& clock);

  // A job of doubling_graph without links.
  service::JobHandle make_job(uint64_t id);
  // Joins the job; the key is the link's number.
  Pair add_link(service::WorkerJob& job, uint32_t number);
  service::WorkerContext& context() { return context_; }
  // What happens when a thread looks for what the core decided; nothing at first.
  void on_look(std::function<void()> look) { events_.look = std::move(look); }

 private:
  struct Events final : public service::EventSink {
    void post(lanes::Event /*event*/) override {}
    bool carry_out_what_came() override {
      if (look) look();
      return look != nullptr;
    }
    std::function<void()> look;
  };

  const std::unique_ptr<adaptor::Backend> backend_;
  Events events_;
  service::WorkerContext context_;
};

}  // namespace laneway::testing

// What laneway.h has for operators and for clients that join a job, over EmbeddedService.
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "service/api/c_border.h"
#include "service/api/job_form.h"
#include "service/api/laneway.h"
#include "service/embedded/embedded.h"
#include "service/embedded/handles.h"

using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace laneway::service {
namespace {

std::vector<wire::SlotSpec> slot_forms(const pipeline::ImageLayout& layout) {
  std::vector<wire::SlotSpec> forms;
  forms.reserve(layout.slot_count());
  for (uint32_t i = 0; i < layout.slot_count(); ++i) {
    const lanes::ImageSlot& slot = layout.slot(i);
    forms.push_back(
        {.name = slot.name, .kind = static_cast<wire::SlotKind>(slot.kind), .bytes = slot.bytes});
  }
  return forms;
}

}  // namespace

laneway_job* new_job_handle(std::shared_ptr<EmbeddedService> service, JobHandle job,
                            lanes::JobClass job_class, bool attached) {
  auto slots = slot_forms(job->torch->layout());
  return new laneway_job{.service = std::move(service),
                         .job = std::move(job),
                         .slots = std::move(slots),
                         .job_class = job_class,
                         .attached = attached,
                         .owner = {}};
}

}  // namespace laneway::service

extern "C" {

int laneway_connect(const laneway_connect_options*, laneway_service**, laneway_error* error) {
  return guarded(error, [&] {
    return report(error, LANEWAY_UNSUPPORTED,
                  "liblaneway_embedded.so runs a service of its own: load liblaneway_client.so to "
                  "connect to a running lanewayd, or use laneway_embedded_open");
  });
}

int laneway_service_command(laneway_service* service, const char* command, const char* argument,
                            laneway_error* error) {
  return guarded(service, error, [&] {
    const std::string wanted = command != nullptr ? command : "";
    if (wanted == "shutdown") {
      return report(error, LANEWAY_UNSUPPORTED,
                    "an embedded service ends with its process, or by laneway_service_close");
    }
    if ((wanted != "kill" && wanted != "policy") || argument == nullptr) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "command '" + wanted + "' with" + (argument == nullptr ? "out" : "") +
                        " an argument: there are \"kill\" JOB, \"policy\" TEXT and \"shutdown\"");
    }
    return report(error, wanted == "kill" ? service->service->kill(argument)
                                          : service->service->set_policy(argument));
  });
}

int laneway_attach(laneway_service* service, const char* name, laneway_job** job,
                   laneway_error* error) {
  return guarded(service, error, [&] {
    if (name == nullptr || job == nullptr) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_attach needs a job's name and a place for its handle");
    }
    auto found = service->service->attach(name);
    if (!found) return report(error, found.error());
    *job = service_ns::new_job_handle(service->service, std::move(found.value().job),
                                      found.value().job_class, true);
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_describe(laneway_job* job, char** json, laneway_error* error) {
  return guarded(job, error, [&] {
    service_ns::JobForm form{.name = job->job->name,
                             .job_class = static_cast<laneway::wire::JobClass>(job->job_class),
                             .slots = job->slots,
                             .graphs = {}};
    for (const auto& [graph, plan] : job->service->worker().plans(*job->job)) {
      form.graphs.push_back(graph->info);
    }
    return service_ns::give_text(service_ns::describe_json(form), json, error);
  });
}

}  // extern "C"

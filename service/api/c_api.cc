// laneway.h over a ServiceFront: services and jobs. Compiled into both libraries; each adds how it
// opens a service (c_open.cc). Iterations and state are in c_api_iterations.cc.
#include <cstdlib>
#include <string>
#include <utility>

#include "service/api/c_border.h"
#include "service/api/c_handles.h"

using laneway::Duration;
using laneway::Result;
using laneway::service::give_text;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

std::span<const std::byte> as_bytes(const void* data, uint64_t bytes) {
  return {static_cast<const std::byte*>(data), data != nullptr ? bytes : 0};
}

int give(const Result<std::string>& text, char** json, laneway_error* error) {
  return text ? give_text(text.value(), json, error) : report(error, text.error());
}

// The handle of what was made.
int give(Result<std::shared_ptr<service_ns::JobFront>> made, laneway_job** job,
         laneway_error* error) {
  if (!made) return report(error, made.error());
  *job = new laneway_job{.front = std::move(made).value(), .owner = {}};
  return LANEWAY_OK;
}

}  // namespace

extern "C" {

int laneway_abi_version(void) { return LANEWAY_ABI_VERSION; }

void laneway_service_close(laneway_service* service) {
  if (service != nullptr && service->owner.is_this()) service->front->close();
}

void laneway_service_release(laneway_service* service) { service_ns::release(service); }

int laneway_service_status(laneway_service* service, char** json, laneway_error* error) {
  return guarded(service, error,
                 [&] { return give(service->front->status(/*with_ended=*/true), json, error); });
}

int laneway_service_status_with(laneway_service* service, int with_ended, char** json,
                                laneway_error* error) {
  return guarded(service, error,
                 [&] { return give(service->front->status(with_ended != 0), json, error); });
}

int laneway_service_job_report(laneway_service* service, uint64_t job, char** json,
                               laneway_error* error) {
  return guarded(service, error,
                 [&] { return give(service->front->job_report(job), json, error); });
}

int laneway_service_command(laneway_service* service, const char* command, const char* argument,
                            laneway_error* error) {
  return guarded(service, error, [&] {
    return report(error, service->front->command(command != nullptr ? command : "", argument));
  });
}

int laneway_service_set(laneway_service* service, const char* job, const char* settings,
                        laneway_error* error) {
  return guarded(service, error, [&] {
    const auto changes = laneway::parse_job_changes(settings != nullptr ? settings : "");
    if (!changes) return report(error, changes.error());
    return report(error, service->front->set(job != nullptr ? job : "", changes.value()));
  });
}

const char* laneway_service_kernels(laneway_service* service) {
  return service != nullptr ? service->front->kernels() : nullptr;
}

void laneway_free(void* memory) { std::free(memory); }

int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                       const void* graph, uint64_t graph_bytes, laneway_job** job,
                       laneway_error* error) {
  return guarded(service, error, [&] {
    const auto request = service_ns::job_request(options, job != nullptr ? graph : nullptr);
    if (!request) return report(error, request.error());
    return give(service->front->create_job(request.value(), as_bytes(graph, graph_bytes)), job,
                error);
  });
}

int laneway_attach(laneway_service* service, const char* name, laneway_job** job,
                   laneway_error* error) {
  return guarded(service, error, [&] {
    if (name == nullptr || job == nullptr) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_attach needs a job's name and a place for its handle");
    }
    return give(service->front->attach(name), job, error);
  });
}

int laneway_job_describe(laneway_job* job, char** json, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto form = job->front->form();
    if (!form) return report(error, form.error());
    return give_text(service_ns::describe_json(form.value()), json, error);
  });
}

int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                          uint32_t* index, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto added = job->front->add_graph(as_bytes(graph, graph_bytes));
    if (!added) return report(error, added.error());
    if (index != nullptr) *index = added.value();
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error) {
  return guarded(job, error, [&] { return report(error, job->front->drop_graph(index)); });
}

int laneway_job_set(laneway_job* job, const char* settings, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto changes = laneway::parse_job_changes(settings != nullptr ? settings : "");
    if (!changes) return report(error, changes.error());
    return report(error, job->front->set(changes.value()));
  });
}

int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error) {
  return guarded(job, error, [&] {
    std::string reason;
    const auto placed = job->front->wait_placed(Duration(timeout_ns), &reason);
    return placed ? report(error, *placed) : report(error, LANEWAY_PENDING, reason);
  });
}

void laneway_job_close(laneway_job* job) {
  if (job != nullptr && job->owner.is_this()) job->front->close();
}

void laneway_job_release(laneway_job* job) { service_ns::release(job); }

int laneway_job_report(laneway_job* job, int with_tapes, char** json, laneway_error* error) {
  return guarded(job, error,
                 [&] { return give(job->front->report(with_tapes != 0), json, error); });
}

}  // extern "C"

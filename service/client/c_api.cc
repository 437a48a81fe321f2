// laneway.h over a connection to a running lanewayd: services and jobs. Iterations and state are in
// c_api_work.cc.
#include <cstdlib>
#include <string>
#include <utility>

#include "service/api/c_border.h"
#include "service/api/close_at_exit.h"
#include "service/api/job_form.h"
#include "service/api/laneway.h"
#include "service/client/client_handles.h"

using laneway::Duration;
using laneway::Result;
using laneway::service::give_text;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

std::span<const std::byte> as_bytes(const void* data, uint64_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

int give(const Result<std::string>& text, char** json, laneway_error* error) {
  return text ? give_text(text.value(), json, error) : report(error, text.error());
}

// The handle of what was made.
int give(Result<std::shared_ptr<service_ns::ClientJob>> made, laneway_job** job,
         laneway_error* error) {
  if (!made) return report(error, made.error());
  *job = new laneway_job{.job = std::move(made).value(), .owner = {}};
  return LANEWAY_OK;
}

int missing(laneway_error* error, const char* what) {
  return report(error, LANEWAY_INVALID_ARGUMENT, what);
}

}  // namespace

extern "C" {

int laneway_abi_version(void) { return LANEWAY_ABI_VERSION; }

const char* laneway_torch_version(void) { return ""; }

int laneway_embedded_open(const laneway_embedded_options*, laneway_service**,
                          laneway_error* error) {
  return report(
      error, LANEWAY_UNSUPPORTED,
      "liblaneway_client.so speaks to a running lanewayd: load liblaneway_embedded.so for "
      "a service inside this process, or use laneway_connect");
}

int laneway_connect(const laneway_connect_options* options, laneway_service** service,
                    laneway_error* error) {
  return guarded(error, [&] {
    if (service == nullptr || (options != nullptr && options->size < sizeof *options)) {
      return missing(error,
                     "laneway_connect needs options with their size set, or none, and a "
                     "place for the service");
    }
    service_ns::Connection::Options wanted{
        .address = {}, .program = program_invocation_short_name, .timeout = Duration()};
    if (options != nullptr) {
      if (options->address != nullptr) wanted.address = options->address;
      if (options->name != nullptr) wanted.program = options->name;
      wanted.timeout = Duration(options->timeout_ns);
    }
    auto connected = service_ns::ClientService::connect(wanted);
    if (!connected) return report(error, connected.error());
    service_ns::close_at_exit(connected.value());
    *service = new laneway_service{.service = std::move(connected).value(), .owner = {}};
    return static_cast<int>(LANEWAY_OK);
  });
}

void laneway_service_close(laneway_service* service) {
  if (service != nullptr && service->owner.is_this()) service->service->close();
}

void laneway_service_release(laneway_service* service) { service_ns::release(service); }

int laneway_service_status(laneway_service* service, char** json, laneway_error* error) {
  return guarded(service, error, [&] { return give(service->service->status(), json, error); });
}

int laneway_service_command(laneway_service* service, const char* command, const char* argument,
                            laneway_error* error) {
  return guarded(service, error, [&] {
    return report(error, service->service->command(command != nullptr ? command : "", argument));
  });
}

const char* laneway_service_kernels(laneway_service* service) {
  return service != nullptr ? service->service->kernels() : nullptr;
}

void laneway_free(void* memory) { std::free(memory); }

int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                       const void* graph, uint64_t graph_bytes, laneway_job** job,
                       laneway_error* error) {
  return guarded(service, error, [&] {
    const auto valid = service_ns::check_job_options(options, job != nullptr ? graph : nullptr);
    if (!valid) return report(error, valid);
    return give(service->service->create_job(*options, as_bytes(graph, graph_bytes)), job, error);
  });
}

int laneway_attach(laneway_service* service, const char* name, laneway_job** job,
                   laneway_error* error) {
  return guarded(service, error, [&] {
    if (name == nullptr || job == nullptr) {
      return missing(error, "laneway_attach needs a job's name and a place for its handle");
    }
    return give(service->service->attach(name), job, error);
  });
}

int laneway_job_describe(laneway_job* job, char** json, laneway_error* error) {
  return guarded(job, error, [&] {
    if (const auto open = job->job->check_open(); !open) return report(error, open);
    return give_text(service_ns::describe_json(job->job->form()), json, error);
  });
}

int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                          uint32_t* index, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto added = job->job->add_graph(as_bytes(graph, graph != nullptr ? graph_bytes : 0));
    if (!added) return report(error, added.error());
    if (index != nullptr) *index = added.value();
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error) {
  return guarded(job, error, [&] { return report(error, job->job->drop_graph(index)); });
}

int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error) {
  return guarded(job, error, [&] {
    std::string reason;
    const auto placed = job->job->wait_placed(Duration(timeout_ns), &reason);
    return placed ? report(error, *placed) : report(error, LANEWAY_PENDING, reason);
  });
}

void laneway_job_close(laneway_job* job) {
  if (job != nullptr && job->owner.is_this()) job->job->close();
}

void laneway_job_release(laneway_job* job) { service_ns::release(job); }

int laneway_job_report(laneway_job* job, int with_tapes, char** json, laneway_error* error) {
  return guarded(job, error, [&] { return give(job->job->report(with_tapes != 0), json, error); });
}

}  // extern "C"

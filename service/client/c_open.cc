// How liblaneway_client.so opens a service: a connection to a running lanewayd. The rest of
// laneway.h is in service/api/.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "service/api/c_border.h"
#include "service/api/c_handles.h"
#include "service/api/close_at_exit.h"
#include "service/client/client_service.h"

using laneway::Duration;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

// Before `torch_version` was appended.
constexpr uint32_t kFirstConnectOptions = 32;
static_assert(offsetof(laneway_connect_options, torch_version) == kFirstConnectOptions);
// And before `answer_ns` was.
constexpr uint32_t kWithTorch = offsetof(laneway_connect_options, answer_ns);

}  // namespace

extern "C" {

const char* laneway_torch_version(void) { return ""; }

int laneway_embedded_open(const laneway_embedded_options*, laneway_service**,
                          laneway_error* error) {
  return guarded(error, [&] {
    return report(
        error, LANEWAY_UNSUPPORTED,
        "liblaneway_client.so speaks to a running lanewayd: load liblaneway_embedded.so for "
        "a service inside this process, or use laneway_connect");
  });
}

int laneway_connect(const laneway_connect_options* options, laneway_service** service,
                    laneway_error* error) {
  return guarded(error, [&] {
    if (service == nullptr || (options != nullptr && options->size < kFirstConnectOptions)) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_connect needs options with their size set, or none, and a "
                    "place for the service");
    }
    service_ns::Connection::Options wanted{.address = {},
                                           .program = program_invocation_short_name,
                                           .timeout = Duration(),
                                           .torch_version = {},
                                           .answer = {}};
    if (options != nullptr) {
      if (options->address != nullptr) wanted.address = options->address;
      if (options->name != nullptr) wanted.program = options->name;
      wanted.timeout = Duration(options->timeout_ns);
      const bool has_torch = options->size >= kWithTorch && options->torch_version != nullptr;
      if (has_torch) wanted.torch_version = options->torch_version;
      if (options->size >= sizeof *options) wanted.answer = Duration(options->answer_ns);
    }
    auto connected = service_ns::ClientService::connect(wanted);
    if (!connected) return report(error, connected.error());
    service_ns::close_at_exit(connected.value());
    *service = new laneway_service{.front = std::move(connected).value(), .owner = {}};
    return static_cast<int>(LANEWAY_OK);
  });
}

}  // extern "C"

// How liblaneway_embedded.so opens a service: core and worker inside this process. The rest of
// laneway.h is in service/api/.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/torch_version.h"
#include "service/api/c_border.h"
#include "service/api/c_handles.h"
#include "service/api/close_at_exit.h"
#include "service/embedded/embedded_front.h"

using laneway::Bytes;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

// Before `lane_sms` was appended.
constexpr uint32_t kFirstEmbeddedOptions = 40;
static_assert(offsetof(laneway_embedded_options, lane_sms) == kFirstEmbeddedOptions);

service_ns::EmbeddedOptions wanted_of(const laneway_embedded_options& options) {
  service_ns::EmbeddedOptions wanted;
  wanted.pool = Bytes(static_cast<int64_t>(options.pool_bytes));
  wanted.lanes = options.lanes;
  if (options.policy != nullptr) wanted.policy = options.policy;
  if (options.device != nullptr) wanted.device = options.device;
  if (options.size >= kFirstEmbeddedOptions + sizeof options.lane_sms) {
    wanted.lane_sms = options.lane_sms;
  }
  if (options.size >= sizeof options) {
    if (options.store_bytes >= 0) wanted.store = Bytes(options.store_bytes);
    if (options.spill_folder != nullptr) {
      wanted.spill_folder = options.spill_folder;
      wanted.spill = Bytes(static_cast<int64_t>(options.spill_bytes));
    }
  }
  return wanted;
}

}  // namespace

extern "C" {

const char* laneway_torch_version(void) { return LANEWAY_TORCH_VERSION; }

int laneway_embedded_open(const laneway_embedded_options* options, laneway_service** service,
                          laneway_error* error) {
  return guarded(error, [&] {
    if (options == nullptr || service == nullptr || options->size < kFirstEmbeddedOptions) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_embedded_open needs options (with their size set) and a place for "
                    "the service");
    }
    if (options->torch_version != nullptr &&
        !laneway::same_torch_minor(options->torch_version, LANEWAY_TORCH_VERSION)) {
      return report(error, LANEWAY_UNSUPPORTED,
                    std::string("this library was built against torch ") + LANEWAY_TORCH_VERSION +
                        ", the process has torch " + options->torch_version +
                        ": install that version, or build Laneway against yours");
    }
    auto opened = service_ns::EmbeddedService::open(wanted_of(*options));
    if (!opened) return report(error, opened.error());
    const std::shared_ptr<service_ns::EmbeddedService> open = std::move(opened).value();
    service_ns::close_at_exit(open);
    *service = new laneway_service{.front = std::make_shared<service_ns::EmbeddedFront>(open),
                                   .owner = {}};
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_connect(const laneway_connect_options*, laneway_service**, laneway_error* error) {
  return guarded(error, [&] {
    return report(error, LANEWAY_UNSUPPORTED,
                  "liblaneway_embedded.so runs a service of its own: load liblaneway_client.so to "
                  "connect to a running lanewayd, or use laneway_embedded_open");
  });
}

}  // extern "C"

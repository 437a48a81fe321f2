#include "service/embedded/embedded_front.h"

#include "base/bytes.h"
#include "service/embedded/embedded_job.h"
#include "service/wire/residency.h"

namespace laneway::service {

Result<std::shared_ptr<JobFront>> EmbeddedFront::create_job(const JobRequest& request,
                                                            std::span<const std::byte> graph) {
  auto made = service_->create_job(request, graph);
  if (!made) return made.error();
  return std::shared_ptr<JobFront>(
      std::make_shared<EmbeddedJob>(service_, std::move(made).value(), /*attached=*/false));
}

Result<std::shared_ptr<JobFront>> EmbeddedFront::attach(const std::string& name) {
  auto found = service_->attach(name);
  if (!found) return found.error();
  return std::shared_ptr<JobFront>(
      std::make_shared<EmbeddedJob>(service_, std::move(found).value(), /*attached=*/true));
}

Status EmbeddedFront::command(const std::string& command, const char* argument) {
  if (command == "shutdown") {
    return Error{ErrorCode::unsupported,
                 "an embedded service ends with its process, or by laneway_service_close"};
  }
  if (command == "record") {
    return Error{ErrorCode::unsupported,
                 "an embedded service is not recorded: give its jobs to a lanewayd"};
  }
  const auto wanted = wire::residency_of(command);
  const bool known = command == "kill" || command == "policy" || command == "pool" || wanted;
  if (!known || argument == nullptr) return no_such_command(command, argument != nullptr);
  if (wanted) return service_->set_residency(argument, *wanted);
  if (command == "pool") {
    const Result<Bytes> size = parse_bytes(argument);
    return size ? service_->set_pool(size.value()) : Status(size.error());
  }
  return command == "kill" ? service_->kill(argument) : service_->set_policy(argument);
}

}  // namespace laneway::service

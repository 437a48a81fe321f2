#include "service/client/client_service.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "service/client/limits.h"
#include "service/status/status.h"
#include "service/wire/residency.h"

namespace laneway::service {
namespace {

// Of the process: connections, jobs and rings keep a reference to it.
const Clock& process_clock() {
  static const auto* clock = new SteadyClock;  // outlives whatever is closed while it ends
  return *clock;
}

// A process that ends does not wait for its jobs to; the service ends them all the same.
constexpr Duration kExitPatience = seconds(2);

// A file of the caller's folder, which is not the service's, by its absolute path.
std::string absolute_policy(const std::string& text) {
  if (!text.starts_with("./") && !text.starts_with("../")) return text;
  const std::string file = text.substr(0, text.find(':'));
  std::error_code error;
  const auto path = std::filesystem::absolute(file, error).lexically_normal();
  return error ? text : path.string() + text.substr(file.size());
}

}  // namespace

Result<std::shared_ptr<ClientService>> ClientService::connect(const Connection::Options& options) {
  auto connection = Connection::open(options, process_clock());
  if (!connection) return connection.error();
  return std::shared_ptr<ClientService>(new ClientService(std::move(connection).value()));
}

Result<std::shared_ptr<JobFront>> ClientService::create_job(const JobRequest& request,
                                                            std::span<const std::byte> graph) {
  return keep(ClientJob::create(connection_, request, graph, process_clock()));
}

Result<std::shared_ptr<JobFront>> ClientService::attach(const std::string& name) {
  return keep(ClientJob::attach(connection_, name, process_clock()));
}

Result<std::shared_ptr<JobFront>> ClientService::keep(Result<std::shared_ptr<ClientJob>> job) {
  if (!job) return job.error();
  MutexLock lock(mutex_);
  std::erase_if(jobs_, [](const auto& known) { return known.expired(); });
  jobs_.push_back(job.value());
  return std::shared_ptr<JobFront>(std::move(job).value());
}

Result<std::string> ClientService::status(bool with_ended) {
  const auto reply =
      connection_->request_for<wire::StatusReply>(wire::ServiceStatus{.with_ended = with_ended});
  if (!reply) return reply.error();
  const wire::StatusReply& status = reply.value().first;
  return status_json(status.service, status.core);
}

Result<std::string> ClientService::job_report(uint64_t job) {
  auto text =
      connection_->request_for<wire::Text>(wire::JobReport{.job = job, .with_tapes = false});
  if (!text) return text.error();
  return std::move(text.value().first.text);
}

Status ClientService::command(const std::string& command, const char* argument) {
  wire::AnyRequest request = wire::Shutdown{};
  if (command == "kill" && argument != nullptr) {
    request = wire::KillJob{.job = argument};
  } else if (command == "release" && argument != nullptr) {
    request = wire::ReleaseJob{.job = argument};
  } else if (const auto wanted = wire::residency_of(command); wanted && argument != nullptr) {
    request = wire::SetResidency{.job = argument, .wanted = *wanted};
  } else if (command == "policy" && argument != nullptr) {
    request = wire::SetPolicy{.policy = absolute_policy(argument)};
  } else if (command == "pool" && argument != nullptr) {
    const Result<Bytes> size = parse_bytes(argument);
    if (!size) return size.error();
    request = wire::SetPool{.bytes = static_cast<uint64_t>(size.value().count())};
  } else if (command == "record") {
    request = wire::EndRecord{};
    if (argument != nullptr) request = wire::StartRecord{.file = argument};
  } else if (command != "shutdown" || argument != nullptr) {
    return no_such_command(command, argument != nullptr);
  }
  const auto done = connection_->request_for<wire::Done>(request);
  if (done) return {};
  // A service that ends hangs up, perhaps before its answer was read.
  const bool ended = done.error().code == ErrorCode::unavailable && !connection_->closed();
  return ended && command == "shutdown" ? Status() : Status(done.error());
}

Status ClientService::set(const std::string& job, const JobChanges& changes) {
  const auto done =
      connection_->request_for<wire::Done>(wire::SetJob{.job = job, .changes = changes});
  return done ? Status() : Status(done.error());
}

void ClientService::close() { close_within(limits::kLongestRequest); }

void ClientService::close_for_exit() { close_within(kExitPatience); }

void ClientService::close_within(Duration patience) {
  connection_->close(patience);
  std::vector<std::weak_ptr<ClientJob>> jobs;
  {
    MutexLock lock(mutex_);
    jobs.swap(jobs_);
  }
  for (const auto& known : jobs) {
    if (const auto job = known.lock()) job->abandon();
  }
}

}  // namespace laneway::service

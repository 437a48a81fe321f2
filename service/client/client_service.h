// ClientService: a connection with the jobs that were made over it, as laneway.h shows it.
// Closing it ends the session. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "service/api/close_at_exit.h"
#include "service/api/service_front.h"
#include "service/client/client_job.h"
#include "service/client/connection.h"

namespace laneway::service {

class ClientService final : public ServiceFront, public OpenService {
 public:
  static Result<std::shared_ptr<ClientService>> connect(const Connection::Options& options);

  Result<std::shared_ptr<JobFront>> create_job(const JobRequest& request,
                                               std::span<const std::byte> graph) override
      LW_EXCLUDES(mutex_);
  Result<std::shared_ptr<JobFront>> attach(const std::string& name) override LW_EXCLUDES(mutex_);
  Result<std::string> status(bool with_ended) override;
  Result<std::string> job_report(uint64_t job) override;
  Status command(const std::string& command, const char* argument) override;
  Status set(const std::string& job, const JobChanges& changes) override;
  const char* kernels() const override { return connection_->welcome().kernels.c_str(); }
  void close() override LW_EXCLUDES(mutex_);
  void close_for_exit() override LW_EXCLUDES(mutex_);

 private:
  explicit ClientService(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  Result<std::shared_ptr<JobFront>> keep(Result<std::shared_ptr<ClientJob>> job)
      LW_EXCLUDES(mutex_);
  void close_within(Duration patience) LW_EXCLUDES(mutex_);

  const std::shared_ptr<Connection> connection_;
  Mutex mutex_;
  std::vector<std::weak_ptr<ClientJob>> jobs_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service

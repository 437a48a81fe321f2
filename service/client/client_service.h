// ClientService: a connection with the jobs that were made over it; what laneway_service is in the
// client library. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "service/api/close_at_exit.h"
#include "service/client/client_job.h"
#include "service/client/connection.h"

namespace laneway::service {

class ClientService final : public OpenService {
 public:
  static Result<std::shared_ptr<ClientService>> connect(const Connection::Options& options);

  Result<std::shared_ptr<ClientJob>> create_job(const laneway_job_options& options,
                                                std::span<const std::byte> graph)
      LW_EXCLUDES(mutex_);
  Result<std::shared_ptr<ClientJob>> attach(const std::string& name) LW_EXCLUDES(mutex_);
  Result<std::string> status();
  // Of the service; lives as long as this object.
  const char* kernels() const { return connection_->welcome().kernels.c_str(); }
  // As laneway_service_command says.
  Status command(const std::string& command, const char* argument);

  // Ends the session and its jobs. Idempotent.
  void close() LW_EXCLUDES(mutex_);
  void close_for_exit() override LW_EXCLUDES(mutex_);

 private:
  explicit ClientService(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  Result<std::shared_ptr<ClientJob>> keep(Result<std::shared_ptr<ClientJob>> job)
      LW_EXCLUDES(mutex_);
  void close_within(Duration patience) LW_EXCLUDES(mutex_);

  const std::shared_ptr<Connection> connection_;
  Mutex mutex_;
  std::vector<std::weak_ptr<ClientJob>> jobs_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service

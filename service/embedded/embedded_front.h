// EmbeddedFront: an EmbeddedService as laneway.h shows it. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "service/api/service_front.h"
#include "service/embedded/embedded.h"

namespace laneway::service {

class EmbeddedFront final : public ServiceFront {
 public:
  explicit EmbeddedFront(std::shared_ptr<EmbeddedService> service) : service_(std::move(service)) {}

  Result<std::shared_ptr<JobFront>> create_job(const JobRequest& request,
                                               std::span<const std::byte> graph) override;
  Result<std::shared_ptr<JobFront>> attach(const std::string& name) override;
  Result<std::string> status(bool with_ended) override { return service_->status(with_ended); }
  Result<std::string> job_report(uint64_t job) override {
    return service_->job_report(std::to_string(job));
  }
  Status command(const std::string& command, const char* argument) override;
  Status set(const std::string& job, const JobChanges& changes) override {
    return service_->set(job, changes);
  }
  const char* kernels() const override { return service_->kernels().c_str(); }
  void close() override { service_->close(); }

 private:
  const std::shared_ptr<EmbeddedService> service_;
};

}  // namespace laneway::service

#include "service/trace/job_names.h"

#include <variant>

#include "base/printable.h"

namespace laneway::service {

void JobNames::on_event(const lanes::Event& event) {
  if (const auto* offered = std::get_if<lanes::JobOffered>(&event)) {
    names_[offered->job] = offered->options.name;
  } else if (const auto* reported = std::get_if<lanes::WorkerReported>(&event)) {
    for (const lanes::ReportedJob& job : reported->report.jobs) {
      names_[job.offer.job] = job.offer.options.name;
    }
  }
}

std::string JobNames::with_number(JobId job) const {
  std::string text = "job " + std::to_string(job.value());
  if (const auto found = names_.find(job); found != names_.end())
    text += " '" + printable(found->second) + "'";
  return text;
}

std::string JobNames::alone(JobId job) const {
  const auto found = names_.find(job);
  return found == names_.end() ? "job " + std::to_string(job.value()) : found->second;
}

}  // namespace laneway::service

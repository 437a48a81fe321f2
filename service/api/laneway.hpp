// laneway.hpp: laneway.h for C++20, in one header: owners that release what they hold, and failures
// as exceptions (laneway::client::Error, with the code and the sentence). Link either library of
// laneway.h. Objects are movable, and may be used from any thread as the C functions may.
//
//   laneway::client::Service service = laneway::client::Service::connect();
//   laneway::client::Job job = service.attach("digits");
//   job.run(0, inputs, outputs);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "service/api/laneway.h"

namespace laneway::client {

class Error : public std::runtime_error {
 public:
  explicit Error(const laneway_error& error)
      : std::runtime_error(error.message), code_(error.code) {}

  int code() const { return code_; }  // laneway_code

 private:
  int code_;
};

namespace detail {

struct Release {
  void operator()(laneway_service* service) const {
    laneway_service_close(service);
    laneway_service_release(service);
  }
  void operator()(laneway_job* job) const {
    laneway_job_close(job);
    laneway_job_release(job);
  }
  void operator()(laneway_submission* submission) const { laneway_submission_release(submission); }
  void operator()(char* text) const { laneway_free(text); }
};
template <class T>
using Owner = std::unique_ptr<T, Release>;

// Calls `function(…, &error)`; false: LANEWAY_PENDING. Throws what else is not LANEWAY_OK.
template <class Function>
bool done(const Function& function) {
  laneway_error error{};
  const int code = function(&error);
  if (code != LANEWAY_OK && code != LANEWAY_PENDING) throw Error(error);
  return code == LANEWAY_OK;
}

template <class Function>
std::string text_of(const Function& function) {
  char* text = nullptr;
  done([&](laneway_error* error) { return function(&text, error); });
  const Owner<char> owned(text);
  return text;
}

}  // namespace detail

// One iteration or access to the state that was submitted. Forgetting it does not stop it.
class Future {
 public:
  explicit Future(laneway_submission* submission) : submission_(submission) {}

  // Whether it is done; then `outputs` (as many as the graph has, or none) are filled.
  bool wait_for(std::chrono::nanoseconds timeout, std::span<const laneway_output> outputs = {}) {
    return detail::done([&](laneway_error* error) {
      return laneway_wait(submission_.get(), timeout.count(), outputs.data(),
                          static_cast<uint32_t>(outputs.size()), error);
    });
  }
  void wait(std::span<const laneway_output> outputs = {}) {
    wait_for(std::chrono::nanoseconds(-1), outputs);
  }
  // Whether it will not run: wait then throws Error with LANEWAY_CANCELLED.
  bool cancel() { return laneway_cancel(submission_.get(), nullptr) == LANEWAY_OK; }

 private:
  detail::Owner<laneway_submission> submission_;
};

// A job, or a handle of somebody else's; ends (or detaches) with this object.
class Job {
 public:
  explicit Job(laneway_job* job) : job_(job) {}

  // Whether it has its memory, within `timeout` (negative: no limit).
  bool wait_placed(std::chrono::nanoseconds timeout = std::chrono::nanoseconds(-1)) {
    return detail::done(
        [&](laneway_error* error) { return laneway_job_wait(job_.get(), timeout.count(), error); });
  }
  // One iteration of a graph, to its end.
  void run(uint32_t graph, std::span<const laneway_input> inputs,
           std::span<const laneway_output> outputs) {
    laneway_submission* pending = nullptr;
    const bool done = detail::done([&](laneway_error* error) {
      return laneway_run(job_.get(), graph, inputs.data(), static_cast<uint32_t>(inputs.size()),
                         outputs.data(), static_cast<uint32_t>(outputs.size()), &pending, error);
    });
    if (!done) Future(pending).wait(outputs);
  }
  Future submit(uint32_t graph, std::span<const laneway_input> inputs) {
    laneway_submission* submission = nullptr;
    detail::done([&](laneway_error* error) {
      return laneway_submit(job_.get(), graph, inputs.data(), static_cast<uint32_t>(inputs.size()),
                            &submission, error);
    });
    return Future(submission);
  }
  uint32_t add_graph(std::span<const char> graph) {
    uint32_t number = 0;
    detail::done([&](laneway_error* error) {
      return laneway_job_add_graph(job_.get(), graph.data(), graph.size(), &number, error);
    });
    return number;
  }
  // Copies slots of the state, after all that was submitted before; `random_state` may be null.
  void read_state(std::span<const laneway_slot_copy> slots, void* random_state = nullptr) {
    laneway_submission* pending = nullptr;
    const bool done = detail::done([&](laneway_error* error) {
      return laneway_read_state(job_.get(), slots.data(), static_cast<uint32_t>(slots.size()),
                                random_state, &pending, error);
    });
    if (!done) Future(pending).wait();
  }
  void write_state(std::span<const laneway_slot_copy> slots, const void* random_state = nullptr) {
    laneway_submission* pending = nullptr;
    const bool done = detail::done([&](laneway_error* error) {
      return laneway_write_state(job_.get(), slots.data(), static_cast<uint32_t>(slots.size()),
                                 random_state, &pending, error);
    });
    if (!done) Future(pending).wait();
  }
  // "weight=2 priority=5": see laneway_service_set.
  void set(const std::string& settings) {
    detail::done(
        [&](laneway_error* error) { return laneway_job_set(job_.get(), settings.c_str(), error); });
  }
  // JSON: see laneway_job_describe and laneway_job_report.
  std::string describe() {
    return detail::text_of([&](char** text, laneway_error* error) {
      return laneway_job_describe(job_.get(), text, error);
    });
  }
  std::string report(bool with_tapes = false) {
    return detail::text_of([&](char** text, laneway_error* error) {
      return laneway_job_report(job_.get(), with_tapes ? 1 : 0, text, error);
    });
  }

 private:
  detail::Owner<laneway_job> job_;
};

// A service; closed with this object, which ends the jobs that it made.
class Service {
 public:
  // The lanewayd at the address ("ipc://PATH"; empty: the default one).
  static Service connect(const std::string& address = {}) {
    const laneway_connect_options options{.size = sizeof options,
                                          .reserved = 0,
                                          .address = address.empty() ? nullptr : address.c_str(),
                                          .name = nullptr,
                                          .timeout_ns = 0,
                                          .torch_version = nullptr,
                                          .answer_ns = 0};
    laneway_service* service = nullptr;
    detail::done([&](laneway_error* error) { return laneway_connect(&options, &service, error); });
    return Service(service);
  }
  explicit Service(laneway_service* service) : service_(service) {}

  // `options.size` is set here.
  Job create_job(laneway_job_options options, std::span<const char> graph) {
    options.size = sizeof options;
    laneway_job* job = nullptr;
    detail::done([&](laneway_error* error) {
      return laneway_job_create(service_.get(), &options, graph.data(), graph.size(), &job, error);
    });
    return Job(job);
  }
  Job attach(const std::string& name) {
    laneway_job* job = nullptr;
    detail::done([&](laneway_error* error) {
      return laneway_attach(service_.get(), name.c_str(), &job, error);
    });
    return Job(job);
  }
  std::string status(bool with_ended = true) {
    return detail::text_of([&](char** text, laneway_error* error) {
      return laneway_service_status_with(service_.get(), with_ended ? 1 : 0, text, error);
    });
  }

 private:
  detail::Owner<laneway_service> service_;
};

}  // namespace laneway::client

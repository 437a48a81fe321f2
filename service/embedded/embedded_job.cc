#include "service/embedded/embedded_job.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "lanes/state/reason.h"

namespace laneway::service {
namespace {

using lanes::InputView;
using lanes::OutputView;

constexpr auto kImageIsFilled = "The job has its memory; its image is being filled.";

// The C structs have the layout of the views.
static_assert(sizeof(laneway_input) == sizeof(InputView));
static_assert(offsetof(laneway_input, real) == offsetof(InputView, real));
static_assert(offsetof(laneway_input, integer) == offsetof(InputView, integer));
static_assert(sizeof(laneway_output) == sizeof(OutputView));

std::span<const InputView> as_views(std::span<const laneway_input> inputs) {
  return {reinterpret_cast<const InputView*>(inputs.data()), inputs.size()};
}

std::span<const OutputView> as_views(std::span<const laneway_output> outputs) {
  return {reinterpret_cast<const OutputView*>(outputs.data()), outputs.size()};
}

std::vector<ImageSlot> slots_of(const pipeline::ImageLayout& layout) {
  std::vector<ImageSlot> slots;
  slots.reserve(layout.slot_count());
  for (uint32_t i = 0; i < layout.slot_count(); ++i) slots.push_back(layout.slot(i));
  return slots;
}

// A piece of work and, for cancel(), where it is queued; it keeps neither job nor service.
class EmbeddedWork final : public Work,
                           public SubmissionFront,
                           public std::enable_shared_from_this<EmbeddedWork> {
 public:
  template <class... Arguments>
  EmbeddedWork(const std::shared_ptr<EmbeddedService>& service, const JobHandle& job,
               Arguments&&... arguments)
      : Work(std::forward<Arguments>(arguments)...), service_(service), job_(job) {}

  std::optional<Status> wait(Duration timeout) override { return Work::wait(timeout); }
  Status copy_outputs(std::span<const laneway_output> to) override {
    return Work::copy_outputs(as_views(to));
  }
  Status cancel() override;

 private:
  const std::weak_ptr<EmbeddedService> service_;
  const std::weak_ptr<WorkerJob> job_;
};

Status EmbeddedWork::cancel() {
  const auto service = service_.lock();
  const auto job = job_.lock();
  if (service != nullptr && job != nullptr && service->worker().cancel(*job, shared_from_this()))
    return {};
  const auto done = Work::wait(Duration());
  if (done && !*done && done->error().code == ErrorCode::cancelled) return {};
  return Error{ErrorCode::refused,
               done ? "the iteration is done" : "the iteration has begun; wait for it"};
}

}  // namespace

EmbeddedJob::EmbeddedJob(std::shared_ptr<EmbeddedService> service, JobHandle job, bool attached)
    : service_(std::move(service)),
      job_(std::move(job)),
      slots_(slots_of(job_->torch->layout())),
      attached_(attached) {}

Status EmbeddedJob::check_open() const {
  if (!detached_) return {};
  return Error{ErrorCode::unavailable,
               "this handle of job '" + job_->name + "' was closed; attach again"};
}

Result<JobForm> EmbeddedJob::form() {
  if (Status open = check_open(); !open) return open.error();
  JobForm form{.name = job_->name,
               .job_class = job_->offer.options.job_class,
               .slots = slots_,
               .graphs = {}};
  for (const auto& [graph, plan] : worker().plans(*job_)) form.graphs.push_back(graph->info);
  return form;
}

Result<uint32_t> EmbeddedJob::add_graph(std::span<const std::byte> graph) {
  if (Status open = check_open(); !open) return open.error();
  return worker().add_graph(*job_, graph);
}

Status EmbeddedJob::drop_graph(uint32_t number) {
  if (Status open = check_open(); !open) return open;
  return worker().drop_graph(*job_, number);
}

Status EmbeddedJob::set(const JobChanges& changes) {
  if (Status open = check_open(); !open) return open;
  return service_->set(std::to_string(job_->id.value()), changes);
}

std::optional<Status> EmbeddedJob::wait_placed(Duration timeout, std::string* reason) {
  if (Status open = check_open(); !open) return open;
  auto placed = worker().wait_placed(*job_, timeout);
  if (!placed) {
    lanes::Reason waits = worker().waiting_reason(*job_);
    for (const lanes::JobStatus& one : service_->snapshot().jobs) {
      if (one.id == job_->id) waits = one.reason;
    }
    *reason = waits.code == lanes::ReasonCode::none ? kImageIsFilled : lanes::reason_text(waits);
  }
  return placed;
}

Result<std::string> EmbeddedJob::report(bool with_tapes) {
  if (Status open = check_open(); !open) return open.error();
  return service_->job_report(*job_, with_tapes);
}

void EmbeddedJob::close() {
  detached_ = attached_;
  if (!attached_) worker().close_job(job_);
}

Result<GraphHandle> EmbeddedJob::find_callable(uint32_t number,
                                               std::span<const laneway_input> inputs) {
  if (Status open = check_open(); !open) return open.error();
  Result<GraphHandle> found = worker().find_graph(*job_, number);
  if (!found) return found;
  if (Status fit = check_inputs(found.value()->info, inputs); !fit) return fit.error();
  return found;
}

JobFront::Submitted EmbeddedJob::run(uint32_t graph, std::span<const laneway_input> inputs,
                                     std::span<const laneway_output> outputs) {
  auto found = find_callable(graph, inputs);
  if (!found) return found.error();
  // Outputs that do not fit would only be noticed behind the commit phase.
  if (Status fit = check_outputs(found.value()->info, outputs); !fit) return fit.error();
  auto done = worker().try_run(*job_, *found.value(), as_views(inputs), as_views(outputs));
  if (!done) return queue(std::move(found).value(), inputs);
  if (!*done) return done->error();
  return std::shared_ptr<SubmissionFront>();
}

JobFront::Submitted EmbeddedJob::submit(uint32_t graph, std::span<const laneway_input> inputs) {
  auto found = find_callable(graph, inputs);
  if (!found) return found.error();
  return queue(std::move(found).value(), inputs);
}

std::optional<Status> EmbeddedJob::wait_for_room(Duration timeout) {
  if (Status open = check_open(); !open) return open;
  return worker().wait_for_room(*job_, timeout);
}

JobFront::Submitted EmbeddedJob::queue(GraphHandle graph, std::span<const laneway_input> inputs) {
  auto work = std::make_shared<EmbeddedWork>(service_, job_, std::move(graph), as_views(inputs));
  if (Status queued = worker().submit(job_, work); !queued) return queued.error();
  return std::shared_ptr<SubmissionFront>(std::move(work));
}

JobFront::Submitted EmbeddedJob::access_state(StateAccess access, bool writes) {
  auto work = std::make_shared<EmbeddedWork>(service_, job_, std::move(access), writes);
  if (Status queued = worker().access_state(job_, work); !queued) return queued.error();
  if (const auto done = work->Work::wait(Duration())) {
    if (!*done) return done->error();
    return std::shared_ptr<SubmissionFront>();
  }
  return std::shared_ptr<SubmissionFront>(std::move(work));
}

JobFront::Submitted EmbeddedJob::read_state(std::span<const laneway_slot_copy> copies,
                                            void* random_state) {
  if (Status open = check_open(); !open) return open.error();
  if (Status valid = check_slots(job_->name, slots_, copies); !valid) return valid.error();
  const auto read = [job = job_, copies, random_state](const pipeline::SlotPlaces& places) {
    for (const laneway_slot_copy& copy : copies) {
      if (Status copied = places.read(copy.slot, copy.data, copy.bytes); !copied) return copied;
    }
    if (random_state == nullptr) return Status();
    const std::vector<std::byte> state = job->torch->random_state();
    if (state.size() != LANEWAY_RANDOM_STATE_BYTES) {
      return Status(Error{ErrorCode::internal, "torch's generator has an unexpected size"});
    }
    std::memcpy(random_state, state.data(), state.size());
    return Status();
  };
  return access_state(read, /*writes=*/false);
}

JobFront::Submitted EmbeddedJob::write_state(std::span<const laneway_slot_copy> copies,
                                             const void* random_state) {
  if (Status open = check_open(); !open) return open.error();
  if (Status valid = check_slots(job_->name, slots_, copies); !valid) return valid.error();
  const auto write = [job = job_, copies, random_state](const pipeline::SlotPlaces& places) {
    // First, because it may be refused: then nothing has changed.
    if (random_state != nullptr) {
      Status set = job->torch->set_random_state(
          {static_cast<const std::byte*>(random_state), LANEWAY_RANDOM_STATE_BYTES});
      if (!set) return set;
    }
    for (const laneway_slot_copy& copy : copies) {
      if (Status written = places.write(copy.slot, copy.data, copy.bytes); !written) {
        return written;
      }
    }
    return Status();
  };
  return access_state(write, /*writes=*/true);
}

}  // namespace laneway::service

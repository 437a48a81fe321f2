// Shows that the threads that copy images end when they must, whoever carries out the core's
// actions: one that carries them out itself (embedded mode drains the core on whatever thread
// posts) is not asked to end itself, and none posts to an owner whose worker was closed. And that
// an image moves whole, or not at all when a new core is told where it is.
#include "service/worker/images/image_copies.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "adaptor/device/backend.h"
#include "base/clock.h"
#include "lanes/graph/graph_codec.h"
#include "service/worker/worker.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

constexpr Bytes kPool = mib(64);
constexpr int64_t kCount = int64_t{4} << 20;
constexpr Bytes kPlace = mib(20);  // for an image
constexpr float kFigure = 7;

// In the place of the core: drops a job that ends, and places a second one as soon as the first
// one's image is there, on the thread that says so.
class CopiesTest : public ::testing::Test, private EventSink {
 protected:
  CopiesTest() : path_(::testing::TempDir() + "image-copies-" + std::to_string(::getpid())) {
    const std::vector<float> figures(kCount, kFigure);
    std::ofstream(path_).write(reinterpret_cast<const char*>(figures.data()),
                               static_cast<std::streamsize>(kCount * sizeof(float)));
    pool_ = backend_->device().allocate_pool(kPool).value();
    EventSink& events = *this;
    worker_ = std::make_unique<Worker>(*backend_, pool_->data(), kPool, events, clock_);
  }
  // Not in a destructor: until then a thread that copies may tell this object of an event.
  void TearDown() override {
    worker_->close_all();
    ::unlink(path_.c_str());
  }

  // Its image comes from the file.
  JobHandle add_job(uint64_t id) {
    auto made =
        worker_->graphs().make_job(*backend_, testing::adding_slots(kCount),
                                   lanes::encode_graph(testing::adding_graph(kCount)), kPool);
    lanes::JobOffered offer{.job = JobId(id),
                            .session = SessionId(1),
                            .options = {.name = "job-" + std::to_string(id)},
                            .iteration_estimate = Duration(),
                            .persistent = made.value().made.job->layout().total(),
                            .ephemeral = Bytes(),
                            .context_key = made.value().made.job->context_key()};
    return worker_->add_job({.offer = std::move(offer),
                             .torch = std::move(made.value().made),
                             .origin = std::move(made.value().origin),
                             .initial = from_file()});
  }
  lanes::PlaceImage place_of(const JobHandle& job) {
    return {.job = job->id,
            .offset = kPlace * static_cast<int64_t>(job->id.value() - 1),
            .size = job->offer.persistent};
  }

  // The figure of which the whole state is made; NaN when there are several.
  float state(const JobHandle& job) {
    std::vector<float> figures(kCount);
    auto work = std::make_shared<Work>([&figures](const pipeline::SlotPlaces& places) {
      return places.read(0, figures.data(), figures.size() * sizeof(float));
    });
    EXPECT_TRUE(worker_->access_state(job, work));
    EXPECT_TRUE(work->wait(Duration(-1))->ok());
    for (const float figure : figures) {
      if (figure != figures[0]) return std::nanf("");
    }
    return figures[0];
  }

  const SteadyClock clock_;
  std::unique_ptr<adaptor::Backend> backend_ = adaptor::open_backend("host", {}).value();
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<Worker> worker_;
  JobHandle next_;  // is placed by who tells of the first
  std::atomic<bool> lingers_{
      false};  // who tells of an image that is there stays until a job is gone
  std::atomic<bool> has_gone_{false};
  std::atomic<int> posting_{0};
  std::atomic<int> answers_{0};  // to MoveImage, and that an image was placed

 private:
  pipeline::InitialImage from_file() {
    struct stat now {};
    EXPECT_EQ(::stat(path_.c_str(), &now), 0);
    WeightFiles files{.files = {{.name = "a.weights",
                                 .bytes = static_cast<uint64_t>(now.st_size),
                                 .modified_ns = int64_t{now.st_mtim.tv_sec} * 1'000'000'000 +
                                                now.st_mtim.tv_nsec}},
                      .ranges = {{.slot = 0,
                                  .slot_offset = 0,
                                  .file_offset = 0,
                                  .bytes = static_cast<uint64_t>(now.st_size)}}};
    std::vector<memory::OwnedDescriptor> opened;
    opened.emplace_back(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    pipeline::InitialImage initial(testing::adding_slots(kCount));
    initial.set_files(
        pipeline::WeightFileReader::make(testing::adding_slots(kCount), files, std::move(opened))
            .value());
    return initial;
  }
  void post(lanes::Event event) override {
    ++posting_;
    answers_ += std::holds_alternative<lanes::ImagePlaced>(event) ||
                std::holds_alternative<lanes::CopyFailed>(event);
    if (std::holds_alternative<lanes::ImagePlaced>(event)) {
      if (JobHandle next = std::exchange(next_, nullptr)) worker_->carry_out({place_of(next)});
      while (lingers_ && !has_gone_) std::this_thread::yield();
      for (int i = 0; lingers_ && i < 10'000; ++i) std::this_thread::yield();
    } else if (const auto* ended = std::get_if<lanes::JobEnded>(&event)) {
      worker_->carry_out({lanes::DropImage{.job = ended->job}});
    }
    --posting_;
  }
  void job_gone(JobId /*job*/, const std::optional<Error>& /*why*/) override { has_gone_ = true; }

  const std::string path_;
};

TEST_F(CopiesTest, AThreadThatPlacesTheNextImageIsNotAskedToEndItself) {
  const JobHandle first = add_job(1);
  const JobHandle second = add_job(2);
  next_ = second;
  worker_->carry_out({place_of(first)});
  EXPECT_TRUE(worker_->wait_placed(*first, Duration(-1))->ok());
  EXPECT_TRUE(worker_->wait_placed(*second, Duration(-1))->ok());
}

TEST_F(CopiesTest, NothingIsPostedAfterTheWorkerWasClosed) {
  const JobHandle job = add_job(1);
  lingers_ = true;
  worker_->carry_out({place_of(job)});
  EXPECT_TRUE(worker_->wait_placed(*job, Duration(-1))->ok());
  worker_->close_all();
  EXPECT_EQ(posting_, 0);
}

TEST_F(CopiesTest, AMoveIsOverWhenTheWorkerReports) {
  const JobHandle job = add_job(1);
  worker_->carry_out({place_of(job)});
  EXPECT_TRUE(worker_->wait_placed(*job, Duration(-1))->ok());
  while (answers_ < 1) std::this_thread::yield();  // it tells after it has placed
  Bytes at;
  int given_up = 0;
  for (int round = 0; round < 100; ++round) {
    const Bytes to = at == Bytes() ? kPlace : Bytes();
    answers_ = 0;
    worker_->carry_out(
        {lanes::MoveImage{.job = job->id, .offset = to, .size = job->offer.persistent}});
    for (int i = 0; i < 20 * round; ++i) std::this_thread::yield();
    const lanes::WorkerReport report = worker_->report();
    const int answered = answers_;
    const Bytes now = report.jobs.at(0).image_offset;
    EXPECT_TRUE(now == at || now == to);
    EXPECT_EQ(state(job), kFigure) << "round " << round;
    EXPECT_EQ(answers_, answered) << "a move answered after the report";
    given_up += now == at;
    at = now;
  }
  EXPECT_GT(given_up, 0);
}

TEST_F(CopiesTest, AnImageThatMovesIsCopiedWhole) {
  const JobHandle job = add_job(1);
  worker_->carry_out({place_of(job)});
  EXPECT_TRUE(worker_->wait_placed(*job, Duration(-1))->ok());
  while (answers_ < 1) std::this_thread::yield();
  worker_->carry_out(
      {lanes::MoveImage{.job = job->id, .offset = kPlace * 2, .size = job->offer.persistent}});
  while (answers_ < 2) std::this_thread::yield();
  EXPECT_EQ(worker_->report().jobs.at(0).image_offset, kPlace * 2);
  std::memset(pool_->data(), 0xff, static_cast<size_t>((kPlace * 2).count()));
  EXPECT_EQ(state(job), kFigure);
}

}  // namespace
}  // namespace laneway::service

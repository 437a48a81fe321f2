// Shows laneway.h over a connection, against a service that one thread plays: iterations, state and
// many in flight; results that nobody fetched; requests whose replies are lost; a service that is
// not there, or vanishes; what a closed handle answers.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/version.h"
#include "service/api/laneway.h"
#include "service/api/laneway.hpp"
#include "tests/service/client/fake_service.h"

namespace laneway::testing {
namespace {

using Floats = std::array<float, 4>;

laneway_input input_of(const Floats& floats) {
  return {.data = floats.data(), .bytes = sizeof floats, .real = 0, .integer = 0};
}
laneway_output output_of(Floats& floats) { return {.data = floats.data(), .bytes = sizeof floats}; }

class ClientTest : public ::testing::Test {
 public:
  ~ClientTest() override {
    laneway_job_release(job_);
    laneway_service_close(service_);
    laneway_service_release(service_);
  }

 protected:
  ClientTest() {
    const std::string address = fake_.address().text();
    const laneway_connect_options options{.size = sizeof options,
                                          .reserved = 0,
                                          .address = address.c_str(),
                                          .name = "test",
                                          .timeout_ns = 0,
                                          .torch_version = nullptr,
                                          .answer_ns = 0};
    EXPECT_EQ(laneway_connect(&options, &service_, &error_), LANEWAY_OK) << error_.message;
    const Floats initial = {1, 2, 3, 4};
    const laneway_slot slot{
        .name = "sum", .kind = LANEWAY_BUFFER, .bytes = sizeof initial, .initial = initial.data()};
    laneway_job_options job{};
    job.size = sizeof job;
    job.name = "sums";
    job.slot_count = 1;
    job.slots = &slot;
    EXPECT_EQ(laneway_job_create(service_, &job, "graph", 5, &job_, &error_), LANEWAY_OK)
        << error_.message;
  }
  int run(const Floats& add, Floats* sum) {
    const laneway_input input = input_of(add);
    const laneway_output output = output_of(*sum);
    laneway_submission* pending = nullptr;
    int code = laneway_run(job_, 0, &input, 1, &output, 1, &pending, &error_);
    if (code != LANEWAY_PENDING) return code;
    code = laneway_wait(pending, -1, &output, 1, &error_);
    laneway_submission_release(pending);
    return code;
  }
  laneway_submission* submit(const Floats& add) {
    const laneway_input input = input_of(add);
    laneway_submission* submission = nullptr;
    EXPECT_EQ(laneway_submit(job_, 0, &input, 1, &submission, &error_), LANEWAY_OK)
        << error_.message;
    return submission;
  }
  // The outcome of a submission, which is released.
  int fetch(laneway_submission* submission, Floats* sum) {
    const laneway_output output = output_of(*sum);
    const int code = laneway_wait(submission, -1, &output, 1, &error_);
    laneway_submission_release(submission);
    return code;
  }

  FakeService fake_;
  laneway_error error_{};
  laneway_service* service_ = nullptr;
  laneway_job* job_ = nullptr;
};

TEST_F(ClientTest, IterationsAddUpFromTheInitialBytes) {
  Floats sum{};
  for (int i = 0; i < 100; ++i) ASSERT_EQ(run({1, 1, 1, 1}, &sum), LANEWAY_OK) << error_.message;
  EXPECT_EQ(sum, (Floats{101, 102, 103, 104}));
}

TEST_F(ClientTest, ArgumentsAreCheckedHere) {
  Floats sum{};
  const laneway_input small{.data = sum.data(), .bytes = 8, .real = 0, .integer = 0};
  laneway_submission* pending = nullptr;
  EXPECT_EQ(laneway_submit(job_, 0, &small, 1, &pending, &error_), LANEWAY_INVALID_ARGUMENT);
  EXPECT_EQ(laneway_submit(job_, 1, &small, 1, &pending, &error_), LANEWAY_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message,
               "job 'sums' has no graph numbered 1: it was never added, or was dropped");
  const laneway_input input = input_of(sum);
  EXPECT_EQ(laneway_run(job_, 0, &input, 1, nullptr, 0, &pending, &error_),
            LANEWAY_INVALID_ARGUMENT);
}

TEST_F(ClientTest, AWaitChecksTheRoomForOutputsAndMayBeMadeAgain) {
  laneway_submission* submission = submit({1, 0, 0, 0});
  Floats sum{};
  const laneway_output nowhere{.data = nullptr, .bytes = sizeof sum};
  EXPECT_EQ(laneway_wait(submission, -1, &nowhere, 1, &error_), LANEWAY_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "output 0 of graph 'sum' has 16 bytes, room was given for 0");
  const laneway_output small{.data = sum.data(), .bytes = 8};
  EXPECT_EQ(laneway_wait(submission, -1, &small, 1, &error_), LANEWAY_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "output 0 of graph 'sum' has 16 bytes, room was given for 8");
  const std::array two = {output_of(sum), output_of(sum)};
  EXPECT_EQ(laneway_wait(submission, -1, two.data(), 2, &error_), LANEWAY_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "graph 'sum' has 1 outputs, room was given for 2");
  ASSERT_EQ(fetch(submission, &sum), LANEWAY_OK) << error_.message;
  EXPECT_EQ(sum[0], 2);
}

TEST_F(ClientTest, SixtyFourInFlightAndNoMore) {
  fake_.hold_back(true);
  std::vector<laneway_submission*> all;
  for (uint32_t i = 0; i < service::kRingSlots; ++i) all.push_back(submit({1, 0, 0, 0}));
  const Floats one{};
  const laneway_input input = input_of(one);
  laneway_submission* more = nullptr;
  EXPECT_EQ(laneway_submit(job_, 0, &input, 1, &more, &error_), LANEWAY_BUSY);
  EXPECT_EQ(laneway_wait_for_room(job_, 0, &error_), LANEWAY_PENDING);
  EXPECT_EQ(laneway_wait(all[0], 0, nullptr, 0, &error_), LANEWAY_PENDING);
  fake_.hold_back(false);
  ASSERT_EQ(laneway_wait_for_room(job_, -1, &error_), LANEWAY_OK) << error_.message;
  all.push_back(submit({1, 0, 0, 0}));
  Floats sum{};
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(fetch(all[i], &sum), LANEWAY_OK) << error_.message;
    EXPECT_EQ(sum[0], static_cast<float>(i + 2));
  }
}

TEST_F(ClientTest, ASegmentThatIsRefusedForGoodIsNotBusy) {
  fake_.refuse_segments();
  const Floats one{};
  const laneway_input input = input_of(one);
  laneway_submission* submission = nullptr;
  EXPECT_EQ(laneway_submit(job_, 0, &input, 1, &submission, &error_), LANEWAY_REFUSED);
  EXPECT_STREQ(error_.message, "no segment more");
  EXPECT_EQ(laneway_wait_for_room(job_, -1, &error_), LANEWAY_OK) << "nothing is in flight";
}

TEST_F(ClientTest, ResultsThatNobodyFetchedDoNotHoldBlocks) {
  std::vector<laneway_submission*> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back(submit({1, 0, 0, 0}));
    ASSERT_EQ(laneway_wait(all.back(), -1, nullptr, 0, &error_), LANEWAY_OK) << error_.message;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    Floats sum{};
    ASSERT_EQ(fetch(all[i], &sum), LANEWAY_OK) << error_.message;
    EXPECT_EQ(sum[0], static_cast<float>(i + 2));
  }
}

TEST_F(ClientTest, CancelledWorkDoesNotRun) {
  fake_.hold_back(true);
  laneway_submission* first = submit({1, 0, 0, 0});
  laneway_submission* second = submit({10, 0, 0, 0});
  EXPECT_EQ(laneway_cancel(second, &error_), LANEWAY_OK);
  fake_.hold_back(false);
  Floats sum{};
  EXPECT_EQ(fetch(first, &sum), LANEWAY_OK);
  EXPECT_EQ(fetch(second, &sum), LANEWAY_CANCELLED);
  EXPECT_EQ(run({0, 0, 0, 0}, &sum), LANEWAY_OK);
  EXPECT_EQ(sum[0], 2);
}

TEST_F(ClientTest, StateIsReadAndReplaced) {
  Floats state{};
  std::vector<unsigned char> random(LANEWAY_RANDOM_STATE_BYTES);
  const laneway_slot_copy copy{.slot = 0, .bytes = sizeof state, .data = state.data()};
  laneway_submission* pending = nullptr;
  for (int round = 0; round < 5; ++round) {
    int code = laneway_read_state(job_, &copy, 1, random.data(), &pending, &error_);
    if (code == LANEWAY_PENDING) code = laneway_wait(pending, -1, nullptr, 0, &error_);
    ASSERT_EQ(code, LANEWAY_OK) << error_.message;
    EXPECT_EQ(state[0], static_cast<float>(1 + round));
    EXPECT_EQ(random.back(), 7);
    state[0] += 1;
    code = laneway_write_state(job_, &copy, 1, nullptr, &pending, &error_);
    if (code == LANEWAY_PENDING) code = laneway_wait(pending, -1, nullptr, 0, &error_);
    ASSERT_EQ(code, LANEWAY_OK) << error_.message;
  }
}

TEST_F(ClientTest, ARequestWhoseReplyIsLostIsRepeatedAndDoneOnce) {
  fake_.lose_replies(1);
  const int before = fake_.requests;
  laneway_job_options options{};
  options.size = sizeof options;
  laneway_job* other = nullptr;
  ASSERT_EQ(laneway_job_create(service_, &options, "graph", 5, &other, &error_), LANEWAY_OK)
      << error_.message;
  EXPECT_EQ(fake_.requests - before, 2);
  EXPECT_EQ(fake_.jobs_made, 2);
  laneway_job_close(other);
  laneway_job_release(other);
}

TEST_F(ClientTest, AWaitSaysWhatItWaitsFor) {
  fake_.hold_back(true);
  EXPECT_EQ(laneway_job_wait(job_, 0, &error_), LANEWAY_PENDING);
  EXPECT_STREQ(error_.message, "it is second; there should be room in about 12 s");
  fake_.hold_back(false);
  EXPECT_EQ(laneway_job_wait(job_, -1, &error_), LANEWAY_OK);
}

TEST_F(ClientTest, CommandsAndTextsGoThrough) {
  char* text = nullptr;
  ASSERT_EQ(laneway_service_status(service_, &text, &error_), LANEWAY_OK) << error_.message;
  EXPECT_NE(std::string(text).find("\"jobs\":[]"), std::string::npos) << text;
  laneway_free(text);
  EXPECT_EQ(laneway_service_command(service_, "kill", "them", &error_), LANEWAY_REFUSED);
  EXPECT_STREQ(error_.message, "not them");
  EXPECT_EQ(laneway_service_command(service_, "kill", nullptr, &error_), LANEWAY_INVALID_ARGUMENT);
  ASSERT_EQ(laneway_job_describe(job_, &text, &error_), LANEWAY_OK) << error_.message;
  EXPECT_NE(std::string(text).find("\"class\":\"training\""), std::string::npos) << text;
  laneway_free(text);
}

TEST_F(ClientTest, AServiceThatVanishesIsHeardByAll) {
  fake_.hold_back(true);
  laneway_submission* submission = submit({1, 0, 0, 0});
  std::jthread end([this] { fake_.vanish(); });
  Floats sum{};
  EXPECT_EQ(fetch(submission, &sum), LANEWAY_UNAVAILABLE);
  EXPECT_NE(std::string(error_.message).find("start lanewayd again"), std::string::npos);
  EXPECT_EQ(run({1, 0, 0, 0}, &sum), LANEWAY_UNAVAILABLE);
  char* text = nullptr;
  EXPECT_EQ(laneway_service_status(service_, &text, &error_), LANEWAY_UNAVAILABLE);
  EXPECT_NE(std::string(error_.message).find(fake_.address().text()), std::string::npos);
}

TEST_F(ClientTest, AServiceThatVanishesBeforeItsAnswerIsReadWasShutDown) {
  fake_.lose_replies(1);
  const int before = fake_.requests;
  std::jthread end([this, before] {
    while (fake_.requests == before) std::this_thread::yield();
    fake_.vanish();
  });
  EXPECT_EQ(laneway_service_command(service_, "shutdown", nullptr, &error_), LANEWAY_OK)
      << error_.message;
  laneway_service_close(service_);
  EXPECT_EQ(laneway_service_command(service_, "shutdown", nullptr, &error_), LANEWAY_UNAVAILABLE);
}

TEST_F(ClientTest, AClosedJobAnswersTheRest) {
  fake_.hold_back(true);
  laneway_submission* submission = submit({1, 0, 0, 0});
  laneway_job_close(job_);
  Floats sum{};
  EXPECT_EQ(fetch(submission, &sum), LANEWAY_CANCELLED);
  EXPECT_EQ(run({1, 0, 0, 0}, &sum), LANEWAY_UNAVAILABLE);
  EXPECT_STREQ(error_.message, "job 'sums' was closed; make a new step to go on");
}

TEST_F(ClientTest, AClosedServiceSaysGoodbyeAndAnswersTheRest) {
  laneway_service_close(service_);
  EXPECT_TRUE(fake_.said_bye);
  Floats sum{};
  EXPECT_EQ(run({1, 0, 0, 0}, &sum), LANEWAY_UNAVAILABLE);
  char* text = nullptr;
  EXPECT_EQ(laneway_service_status(service_, &text, &error_), LANEWAY_UNAVAILABLE);
}

TEST(Wrapper, RunsReadsAndThrows) {
  const FakeService fake;
  auto service = client::Service::connect(fake.address().text());
  const laneway_slot slot{
      .name = "sum", .kind = LANEWAY_BUFFER, .bytes = sizeof(Floats), .initial = nullptr};
  laneway_job_options options{};
  options.slot_count = 1;
  options.slots = &slot;
  auto job = service.create_job(options, std::string("graph"));
  EXPECT_TRUE(job.wait_placed());
  const Floats one = {1, 1, 1, 1};
  Floats sum{}, state{};
  const std::array inputs = {input_of(one)};
  const std::array outputs = {output_of(sum)};
  job.run(0, inputs, outputs);
  job.submit(0, inputs).wait(outputs);
  const std::array slots = {
      laneway_slot_copy{.slot = 0, .bytes = sizeof state, .data = state.data()}};
  job.read_state(slots);
  EXPECT_EQ(sum, (Floats{2, 2, 2, 2}));
  EXPECT_EQ(state, sum);
  try {
    job.run(7, inputs, outputs);
    FAIL() << "there is no graph 7";
  } catch (const client::Error& error) {
    EXPECT_EQ(error.code(), LANEWAY_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace laneway::testing

// What laneway_job_options become: every option arrives, what lies behind the caller's size is not
// read, and what does not exist is refused by name.
#include "service/api/job_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "tests/service/api/option_fields.h"

namespace laneway::service {
namespace {

using testing::HasSubstr;

constexpr std::byte kGraph{};

// Every field differs from what it means to leave it out.
laneway_job_options all_set() {
  laneway_job_options options{};
  options.size = sizeof options;
  options.job_class = LANEWAY_INFERENCE;
  options.name = "digits";
  options.priority = -3;
  options.weight = 2.5;
  options.total_iterations = 1000;
  options.shared = 1;
  options.replay = LANEWAY_REPLAY_OFF;
  options.deadline_ns = 5'000'000'000;
  options.iteration_ns = 250'000'000;
  return options;
}

TEST(JobRequest, CarriesEveryOption) {
  const laneway_job_options options = all_set();
  const auto request = job_request(&options, &kGraph);
  ASSERT_TRUE(request) << request.error().message;
  const JobOptions wanted{.name = "digits",
                          .job_class = JobClass::inference,
                          .priority = -3,
                          .weight = 2.5,
                          .total_iterations = 1000,
                          .shared = true,
                          .replay = Replay::off,
                          .deadline = seconds(5),
                          .iteration_time = milliseconds(250)};
  EXPECT_EQ(request.value().options, wanted);
  const auto carried = field_texts(request.value().options);
  const auto defaults = field_texts({});
  ASSERT_EQ(carried.size(), defaults.size());
  for (size_t i = 0; i < carried.size(); ++i) {
    EXPECT_NE(carried[i], defaults[i]) << "option " << i << " of JobOptions is not carried";
  }
}

TEST(JobRequest, CarriesSlotsTheirBytesAndTheRandomState) {
  const std::array<std::byte, 4> bytes{};
  const std::array<std::byte, 8> random{};
  const std::array<laneway_slot, 2> slots{
      laneway_slot{
          .name = "weight", .kind = LANEWAY_PARAMETER, .bytes = 4, .initial = bytes.data()},
      laneway_slot{.name = nullptr, .kind = LANEWAY_CONSTANT, .bytes = 8, .initial = nullptr}};
  laneway_job_options options = all_set();
  options.slots = slots.data();
  options.slot_count = slots.size();
  options.random_state = random.data();
  options.random_state_bytes = random.size();
  const auto request = job_request(&options, &kGraph);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_THAT(request.value().slots,
              testing::ElementsAre(ImageSlot{"weight", SlotKind::parameter, 4},
                                   ImageSlot{"", SlotKind::constant, 8}));
  EXPECT_THAT(request.value().initial, testing::ElementsAre(bytes.data(), nullptr));
  EXPECT_EQ(request.value().random_state.data(), random.data());
  EXPECT_EQ(request.value().random_state.size(), random.size());
}

TEST(JobRequest, FieldsBehindTheCallersSizeHaveTheirDefaults) {
  laneway_job_options options = all_set();
  options.size = offsetof(laneway_job_options, shared);
  const auto oldest = job_request(&options, &kGraph);
  ASSERT_TRUE(oldest) << oldest.error().message;
  EXPECT_FALSE(oldest.value().options.shared);
  EXPECT_EQ(oldest.value().options.replay, Replay::automatic);
  options.size = offsetof(laneway_job_options, replay);
  const auto older = job_request(&options, &kGraph);
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_TRUE(older.value().options.shared);
  EXPECT_EQ(older.value().options.replay, Replay::automatic);
  options.size = offsetof(laneway_job_options, deadline_ns);
  const auto old = job_request(&options, &kGraph);
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old.value().options.replay, Replay::off);
  EXPECT_EQ(old.value().options.deadline, Duration());
  options.size = offsetof(laneway_job_options, iteration_ns);
  const auto last = job_request(&options, &kGraph);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last.value().options.deadline, seconds(5));
  EXPECT_EQ(last.value().options.iteration_time, Duration());
}

TEST(JobRequest, RefusesWhatDoesNotExist) {
  const auto refusal = [](const laneway_job_options& options) {
    const auto request = job_request(&options, &kGraph);
    EXPECT_FALSE(request);
    if (request) return std::string();
    EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
    return request.error().message;
  };
  laneway_job_options options = all_set();
  options.size = 8;
  EXPECT_THAT(refusal(options), HasSubstr("size"));
  options = all_set();
  options.job_class = LANEWAY_BEST_EFFORT + 1;
  EXPECT_THAT(refusal(options), HasSubstr("laneway_class"));
  options = all_set();
  options.replay = LANEWAY_REPLAY_OFF + 1;
  EXPECT_THAT(refusal(options), HasSubstr("replay 3"));
  options = all_set();
  options.weight = std::nan("");
  EXPECT_THAT(refusal(options), HasSubstr("weight = nan"));
  options = all_set();
  options.deadline_ns = -1;
  EXPECT_THAT(refusal(options), HasSubstr("deadline = "));
  options = all_set();
  options.slot_count = 2;
  EXPECT_THAT(refusal(options), HasSubstr("2 slots and no array"));
  const laneway_slot slot{
      .name = "x", .kind = LANEWAY_CONSTANT + 1, .bytes = 1, .initial = nullptr};
  options.slots = &slot;
  options.slot_count = 1;
  EXPECT_THAT(refusal(options), HasSubstr("slot 0"));
  EXPECT_FALSE(job_request(nullptr, &kGraph));
  options = all_set();
  EXPECT_FALSE(job_request(&options, nullptr));
}

}  // namespace
}  // namespace laneway::service

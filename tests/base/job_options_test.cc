// Shows what a client may say of a job: each bound of base/limits.h is allowed, what lies one step
// behind it is refused, and so are numbers that are none; each refusal names the option, the value
// and what to give.
#include "base/job_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/limits.h"

namespace laneway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of options that have this value, and no other than the default of the rest.
template <class Field>
std::string refusal(Field JobOptions::*field, Field value) {
  JobOptions options;
  options.*field = value;
  const Status checked = check_job_options(options);
  if (checked) return "";
  EXPECT_EQ(checked.error().code, ErrorCode::invalid_argument);
  return checked.error().message;
}

TEST(JobOptions, TheBoundsThemselvesAreAllowed) {
  EXPECT_TRUE(check_job_options({}));
  for (const int sign : {-1, 1}) {
    EXPECT_EQ(refusal(&JobOptions::priority, static_cast<int32_t>(sign * limits::kMaxPriority)),
              "");
  }
  EXPECT_EQ(refusal(&JobOptions::weight, limits::kMinWeight), "");
  EXPECT_EQ(refusal(&JobOptions::weight, limits::kMaxWeight), "");
  EXPECT_EQ(refusal(&JobOptions::total_iterations, limits::kMaxTotalIterations), "");
  EXPECT_EQ(refusal(&JobOptions::deadline, limits::kMaxDeadline), "");
  EXPECT_EQ(refusal(&JobOptions::deadline, Duration(1)), "");
  EXPECT_EQ(refusal(&JobOptions::iteration_time, limits::kMaxIterationTime), "");
}

TEST(JobOptions, WhatIsNoShareOfTheDeviceIsNoWeight) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double weight :
       {0.0, -1.0, std::nan(""), infinity, -infinity, 1e300,
        std::nextafter(limits::kMaxWeight, infinity), std::nextafter(limits::kMinWeight, 0.0)}) {
    EXPECT_THAT(refusal(&JobOptions::weight, weight),
                AllOf(HasSubstr("weight = "), HasSubstr("from 0.001 to 1000")))
        << weight;
  }
  EXPECT_THAT(refusal(&JobOptions::weight, -2.5), HasSubstr("weight = -2.5:"));
}

TEST(JobOptions, APriorityIsBoundedOnBothSides) {
  const auto most = static_cast<int32_t>(limits::kMaxPriority);
  for (const int32_t priority : {most + 1, -most - 1, INT32_MAX, INT32_MIN}) {
    EXPECT_THAT(refusal(&JobOptions::priority, priority),
                AllOf(HasSubstr("priority = " + std::to_string(priority)), HasSubstr("1000000")));
  }
}

TEST(JobOptions, ATotalAndADeadlineAreBounded) {
  for (const uint64_t total : {limits::kMaxTotalIterations + 1, UINT64_MAX}) {
    EXPECT_THAT(refusal(&JobOptions::total_iterations, total),
                AllOf(HasSubstr("total_iterations = " + std::to_string(total)),
                      HasSubstr(std::to_string(limits::kMaxTotalIterations))));
  }
  for (const Duration deadline : {Duration(-1), limits::kMaxDeadline + Duration(1),
                                  Duration(INT64_MIN), Duration(INT64_MAX)}) {
    EXPECT_THAT(refusal(&JobOptions::deadline, deadline),
                AllOf(HasSubstr("deadline = "), HasSubstr("seconds from the offer")));
  }
  for (const Duration time : {Duration(-1), limits::kMaxIterationTime + Duration(1)}) {
    EXPECT_THAT(refusal(&JobOptions::iteration_time, time),
                AllOf(HasSubstr("iteration_s = "), HasSubstr("at most 86400")));
  }
}

}  // namespace
}  // namespace laneway

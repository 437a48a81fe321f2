// Shows which texts change which options of a job, that the text of a change means the change
// again, and that everything else is refused by name, with what may be given.
#include "base/job_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laneway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(JobChanges, SaysWhichOptionsChangeAndToWhat) {
  const auto changes = parse_job_changes(" weight=2.5  priority=-3\ntotal_iterations=1000");
  ASSERT_TRUE(changes) << changes.error().message;
  JobOptions options;
  options.name = "digits";
  options.deadline = seconds(5);
  changes.value().apply_to(options);
  JobOptions wanted;
  wanted.name = "digits";
  wanted.deadline = seconds(5);
  wanted.weight = 2.5;
  wanted.priority = -3;
  wanted.total_iterations = 1000;
  EXPECT_EQ(options, wanted);
}

TEST(JobChanges, ATotalAndADeadlineAreTakenBackWithNone) {
  JobOptions options;
  options.total_iterations = 10;
  options.deadline = seconds(5);
  options.iteration_time = seconds(5);
  parse_job_changes("deadline=none total_iterations=none iteration_s=none")
      .value()
      .apply_to(options);
  EXPECT_EQ(options, JobOptions());
}

TEST(JobChanges, TheTextOfAChangeMeansTheSameChange) {
  for (const char* text :
       {"priority=5", "weight=0.001", "weight=2.5 deadline=0.25", "total_iterations=none",
        ("priority=-1 weight=1 total_iterations=7 deadline=90 iteration_s=0.25 "
         "job_class=best_effort")}) {
    EXPECT_EQ(job_changes_text(parse_job_changes(text).value()), text);
  }
}

TEST(JobChanges, WhatMakesNoSenseIsRefusedByName) {
  const auto refusal = [](const char* text) {
    const auto changes = parse_job_changes(text);
    EXPECT_FALSE(changes) << text;
    return changes ? "" : changes.error().message;
  };
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("nothing is set"), HasSubstr("priority, weight")));
  EXPECT_THAT(refusal("weight"), AllOf(HasSubstr("'weight'"), HasSubstr("KEY=VALUE")));
  EXPECT_THAT(refusal("name=x"), AllOf(HasSubstr("'name=x'"), HasSubstr("job_class")));
  EXPECT_THAT(refusal("weight=2 weight=3"), HasSubstr("weight is given twice"));
  EXPECT_THAT(refusal("weight=heavy"), HasSubstr("weight = 'heavy': give a number"));
  EXPECT_THAT(refusal("weight=nan"), HasSubstr("weight = nan: give a number from 0.001"));
  EXPECT_THAT(refusal("weight=2.5x"), HasSubstr("weight = '2.5x'"));
  EXPECT_THAT(refusal("priority=1e9"), HasSubstr("priority = '1e9'"));
  EXPECT_THAT(refusal("priority=99999999999"), HasSubstr("priority = '99999999999'"));
  EXPECT_THAT(refusal("priority=1000001"), HasSubstr("from -1000000 to 1000000"));
  EXPECT_THAT(refusal("total_iterations=-5"), HasSubstr("total_iterations = '-5'"));
  EXPECT_THAT(refusal("total_iterations=0"), HasSubstr("or none"));
  EXPECT_THAT(refusal("job_class=batch"), HasSubstr("training, inference or best_effort"));
  for (const char* text : {"deadline=0", "deadline=-1", "deadline=nan", "deadline=inf",
                           "deadline=1e300", "deadline=-1e300"}) {
    EXPECT_THAT(refusal(text), HasSubstr("deadline = ")) << text;
  }
  for (const char* text :
       {"iteration_s=0", "iteration_s=-1", "iteration_s=nan", "iteration_s=1e9"}) {
    EXPECT_THAT(refusal(text), HasSubstr("iteration_s = ")) << text;
  }
  EXPECT_THAT(refusal("weight=2 priority=x"), HasSubstr("priority")) << "all or nothing";
}

}  // namespace
}  // namespace laneway

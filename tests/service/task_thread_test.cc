// TaskThread: what it is given runs in order, and on the caller where nothing else is to be done.
#include "service/worker/common/task_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace laneway::service {
namespace {

using ::testing::ElementsAre;

TEST(TaskThread, RunsOnTheCallerWhenItIsIdle) {
  TaskThread thread;
  std::thread::id where;
  EXPECT_TRUE(thread.run_if_idle([&where] { where = std::this_thread::get_id(); }));
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(TaskThread, OvertakesNothing) {
  TaskThread thread;
  std::latch go(1);
  thread.post([&go] { go.wait(); });
  bool ran = false;
  EXPECT_FALSE(thread.run_if_idle([&ran] { ran = true; })) << "one runs, or is about to";
  EXPECT_FALSE(ran);
  go.count_down();
  thread.wait_idle();
  EXPECT_TRUE(thread.run_if_idle([&ran] { ran = true; }));
  EXPECT_TRUE(ran);
}

TEST(TaskThread, WhatIsGivenMeanwhileWaitsAndItIsNotIdle) {
  TaskThread thread;
  std::vector<int> order;
  EXPECT_TRUE(thread.run_if_idle([&] {
    thread.post([&order] { order.push_back(2); });
    EXPECT_FALSE(thread.wait_idle_for(milliseconds(5)));
    EXPECT_FALSE(thread.run_if_idle([] {}));
    order.push_back(1);
  }));
  thread.wait_idle();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

}  // namespace
}  // namespace laneway::service

// The link carries one transfer at a time, in order, at its rate; what is given up makes way.
#include "simulator/link.h"

#include <gtest/gtest.h>

namespace laneway::simulator {
namespace {

TEST(Link, OneTransferAtATimeInTheOrderInWhichTheyWereAskedFor) {
  Link link(1'000'000'000);  // a byte a nanosecond
  EXPECT_EQ(link.next(), TimePoint::never());
  link.add(TimePoint(10), {JobId(1), Link::What::evict, Bytes(100)});
  link.add(TimePoint(20), {JobId(2), Link::What::save, Bytes(50)});
  EXPECT_EQ(link.next(), TimePoint(110));
  EXPECT_EQ(link.finish(TimePoint(110)).job, JobId(1));
  EXPECT_EQ(link.next(), TimePoint(160));
  EXPECT_EQ(link.finish(TimePoint(160)).what, Link::What::save);
  EXPECT_EQ(link.next(), TimePoint::never());
  EXPECT_EQ(link.moved(), Bytes(150));
}

TEST(Link, WhatIsGivenUpMakesWayAtOnceAndIsNotCounted) {
  Link link(1'000'000'000);
  link.add(TimePoint(0), {JobId(1), Link::What::save, Bytes(100)});
  link.add(TimePoint(0), {JobId(2), Link::What::evict, Bytes(30)});
  link.add(TimePoint(0), {JobId(3), Link::What::evict, Bytes(30)});
  EXPECT_TRUE(link.drop(TimePoint(40), JobId(1)));
  EXPECT_EQ(link.next(), TimePoint(70));
  EXPECT_TRUE(link.drop(TimePoint(50), JobId(3)));
  EXPECT_EQ(link.next(), TimePoint(70)) << "the one under way goes on";
  EXPECT_FALSE(link.drop(TimePoint(50), JobId(9)));
  link.finish(TimePoint(70));
  EXPECT_EQ(link.moved(), Bytes(30));
}

TEST(Link, WithoutARateCopiesTakeNoTime) {
  Link link(0);
  link.add(TimePoint(7), {JobId(1), Link::What::place, gib(100)});
  EXPECT_EQ(link.next(), TimePoint(7));
}

}  // namespace
}  // namespace laneway::simulator

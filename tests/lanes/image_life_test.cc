// The life of an image: the table says what it should, each step leaves a state and members that
// fit each other, and what does not fit is noticed.
#include "lanes/state/image_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace laneway::lanes {
namespace {

using enum ImageState;

constexpr OutsidePlace kPlace{Tier::spill, Bytes(128)};
constexpr ImagePrefix kPrefix{Bytes(64), Bytes(256)};

std::vector<ImageState> all_states() {
  std::vector<ImageState> states;
  for (size_t i = 0; i < kImageStateCount; ++i) states.push_back(static_cast<ImageState>(i));
  return states;
}

// In that state as the steps lead there; where there are two ways, by way of a copy outside.
ImageLife life_in(ImageState state) {
  ImageLife life;
  if (state == absent) return life;
  life.come({});
  if (state == coming) return life;
  life.placed();
  switch (state) {
    case saving: life.save_to(kPlace); break;
    case moving: life.move_to(Bytes(64)); break;
    case leaving: life.leave_to(kPlace, kPrefix); break;
    case away:
    case arriving:
      life.leave_to(kPlace, kPrefix);
      life.left();
      if (state == away) break;
      life.come(kPrefix);
      life.arrive();
      break;
    default: break;
  }
  return life;
}

TEST(ImageStates, HaveNames) {
  std::vector<std::string> names;
  for (const ImageState state : all_states()) names.emplace_back(image_state_name(state));
  EXPECT_THAT(names, testing::ElementsAre("absent", "coming", "arriving", "here", "saving",
                                          "moving", "leaving", "away"));
}

// What moves is not copied out, what is copied out can be written or leave, and there is no way out
// of the pool but by leaving.
TEST(ImageStates, FollowEachOtherByTheTable) {
  const std::set<std::pair<ImageState, ImageState>> allowed = {
      {absent, coming}, {away, coming},    {coming, arriving}, {coming, here},  {arriving, here},
      {here, saving},   {saving, here},    {here, moving},     {moving, here},  {here, leaving},
      {leaving, here},  {saving, leaving}, {leaving, saving},  {leaving, away},
  };
  for (const ImageState from : all_states()) {
    for (const ImageState to : all_states()) {
      EXPECT_EQ(image_transition_allowed(from, to), allowed.count({from, to}) > 0)
          << image_state_name(from) << " to " << image_state_name(to);
    }
  }
}

TEST(ImageLife, IsConsistentInEachState) {
  for (const ImageState state : all_states()) {
    const ImageLife life = life_in(state);
    EXPECT_EQ(life.state, state);
    EXPECT_TRUE(life.consistent()) << image_state_name(state);
    const bool outside = state == absent || state == away;
    EXPECT_EQ(life.in_pool(), !outside) << image_state_name(state);
    EXPECT_EQ(life.is_usable(), !outside && state != coming) << image_state_name(state);
    EXPECT_EQ(life.comes_back(), state == arriving) << "the other one comes from its first bytes";
  }
}

TEST(ImageLife, ComesBackFromWhereItWent) {
  ImageLife life = life_in(away);
  EXPECT_EQ(life.copy, kPlace);
  EXPECT_EQ(life.prefix, kPrefix);
  EXPECT_TRUE(life.clean);
  life.come(kPrefix);
  EXPECT_TRUE(life.comes_back());
  EXPECT_EQ(life.prefix, kPrefix);
  life.placed();
  EXPECT_TRUE(life.clean) << "nobody has written it yet";
  EXPECT_FALSE(life.prefix.exists());
  EXPECT_TRUE(life.outdate()) << "the place outside is free";
  EXPECT_EQ(life, life_in(here));
}

TEST(ImageLife, ACleanOneLeavesToWhereItsCopyLies) {
  ImageLife life = life_in(saving);
  life.saved(true);
  EXPECT_TRUE(life.clean);
  life.leave_to({Tier::store, Bytes()}, {});
  EXPECT_EQ(life.copy, kPlace);
  EXPECT_FALSE(life.outdate()) << "it goes there";
  EXPECT_EQ(life.copy, kPlace);
  EXPECT_FALSE(life.clean);
  life.stay();
  EXPECT_EQ(life, life_in(here)) << "a copy that failed is none";
}

TEST(ImageLife, ACopyAheadOfNeedThatIsNotWholeIsNone) {
  ImageLife life = life_in(saving);
  EXPECT_TRUE(life.is_saved());
  EXPECT_FALSE(life.outdate()) << "the copy is still being made";
  life.saved(false);
  EXPECT_EQ(life, life_in(here));
}

// Asked for while a copy ahead of need is under way, whose answer comes first; or after it, from a
// worker that says anything.
TEST(ImageLife, LeavesWhileItIsSaved) {
  ImageLife life = life_in(saving);
  life.leave_to(kPlace, {});
  EXPECT_TRUE(life.is_saved());
  EXPECT_TRUE(life.consistent());
  ImageLife stays = life;
  stays.stay();
  EXPECT_EQ(stays, life_in(saving));
  ImageLife gone = life;
  gone.left();
  EXPECT_FALSE(gone.is_saved());
  EXPECT_TRUE(gone.consistent());
  life.saved(true);
  EXPECT_EQ(life.state, leaving);
  EXPECT_FALSE(life.is_saved());
}

TEST(ImageLife, MovesWithItsCopy) {
  ImageLife life = life_in(saving);
  life.saved(true);
  life.move_to(Bytes(192));
  EXPECT_TRUE(life.consistent());
  EXPECT_TRUE(life.clean);
  life.moved();
  EXPECT_EQ(life.moves_to, Bytes());
  EXPECT_TRUE(life.clean);
}

TEST(ImageLife, WhatDoesNotFitItsStateIsNoticed) {
  const auto is_wrong = [](ImageState state, auto change) {
    ImageLife life = life_in(state);
    change(life);
    return !life.consistent();
  };
  const auto no_copy = [](ImageLife& life) { life.copy = {}; };
  const auto unclean = [](ImageLife& life) { life.clean = false; };
  const auto clean = [](ImageLife& life) { life.clean = true; };
  const auto half_copy = [](ImageLife& life) { life.copy = kPlace; };
  const auto prefix = [](ImageLife& life) { life.prefix = kPrefix; };
  const auto saves = [](ImageLife& life) { life.saves = true; };
  const auto moves = [](ImageLife& life) { life.moves_to = Bytes(64); };
  for (const ImageState state : {saving, leaving, away, arriving}) {
    EXPECT_TRUE(is_wrong(state, no_copy)) << image_state_name(state);
  }
  for (const ImageState state : {away, arriving}) {
    EXPECT_TRUE(is_wrong(state, unclean)) << image_state_name(state);
  }
  for (const ImageState state : {absent, coming, here, moving, saving}) {
    EXPECT_TRUE(is_wrong(state, clean)) << image_state_name(state);
    EXPECT_TRUE(is_wrong(state, prefix)) << image_state_name(state);
  }
  for (const ImageState state : {absent, coming, here, moving}) {
    EXPECT_TRUE(is_wrong(state, half_copy)) << image_state_name(state);
  }
  for (const ImageState state : all_states()) {
    EXPECT_EQ(is_wrong(state, saves), state != leaving) << image_state_name(state);
    EXPECT_EQ(is_wrong(state, moves), state != moving) << image_state_name(state);
  }
}

TEST(ImageLifeDeathTest, AnImpossibleStepStopsTheProcess) {
  ImageLife life = life_in(moving);
  EXPECT_DEATH(life.leave_to(kPlace, {}), "can't go from 'moving' to 'leaving'");
  ImageLife first = life_in(coming);
  EXPECT_DEATH(first.arrive(), "arrives from nowhere");
}

}  // namespace
}  // namespace laneway::lanes

// Frames: what is said arrives, in whatever pieces, and what is none of a policy's is refused with
// a word for it.
#include "plugin/frames.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/random.h"
#include "tests/plugin/said.h"

namespace laneway::plugin {
namespace {

// What is wrong with the frame; empty: nothing.
std::string complaint(const FrameBytes& bytes) {
  FrameReader reader;
  reader.add(bytes);
  const auto said = reader.next();
  return said ? "" : said.error().message;
}

template <class What>
What only(const FrameBytes& bytes) {
  FrameReader reader;
  reader.add(bytes);
  const auto said = reader.next();
  EXPECT_TRUE(said && said.value() && std::holds_alternative<What>(*said.value()));
  const auto more = reader.next();
  EXPECT_TRUE(more && !more.value());
  return std::get<What>(*said.value());
}

TEST(Frames, WhatAProgramSaysIsRead) {
  EXPECT_EQ(only<SaidHello>(hello(7)).version, 7u);
  EXPECT_EQ(only<Done>(done(12)).number, 12u);
  EXPECT_EQ(only<WakeAt>(wake_at(1.5)).time, TimePoint(1'500'000'000));
  EXPECT_EQ(only<WakeAt>(frame(FrameType::said_wake_at, uint8_t{0}, 0.0)).time, std::nullopt);
  const auto advice = only<lanes::Advice>(
      frame(FrameType::said_rank, uint64_t{9}, int64_t{11}, int64_t{12}, -2.5, 0.5, -0.25, 0.02));
  EXPECT_EQ(advice.job, JobId(9));
  EXPECT_EQ(advice.advice.value, -2.5);
  EXPECT_EQ(advice.advice.per_busy_s, 0.5);
  EXPECT_EQ(advice.advice.per_wait_s, -0.25);
  EXPECT_EQ(advice.advice.slice, milliseconds(20));
  EXPECT_EQ(advice.advice.busy, Duration(11));
  EXPECT_EQ(advice.advice.waiting, Duration(12));
}

TEST(Frames, PiecesOfAnySizeAreTheSameFrames) {
  FrameBytes all = hello();
  for (uint64_t job = 1; job <= 50; ++job) {
    const FrameBytes one = rank(job, static_cast<double>(job));
    all.insert(all.end(), one.begin(), one.end());
  }
  for (const size_t size : {1u, 2u, 7u, 50u, 4096u}) {
    FrameReader reader;
    uint64_t heard = 0;
    for (size_t at = 0; at < all.size(); at += size) {
      reader.add(std::span(all).subspan(at, std::min(size, all.size() - at)));
      while (true) {
        const auto said = reader.next();
        ASSERT_TRUE(said) << said.error().message;
        if (!said.value()) break;
        const auto* advice = std::get_if<lanes::Advice>(&*said.value());
        if (advice != nullptr) {
          EXPECT_EQ(advice->job, JobId(heard));
        }
        ++heard;
      }
    }
    EXPECT_EQ(heard, 51u) << size;
  }
}

TEST(Frames, NumbersThatAreNoneAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(complaint(rank(5, nan)), "its rank of job 5 has value nan: give a finite number");
  EXPECT_EQ(complaint(rank(5, 0, infinite)),
            "its rank of job 5 has slice_s inf: give a finite number");
  EXPECT_NE(complaint(rank(5, 0, -1)).find("slice_s -1"), std::string::npos);
  EXPECT_NE(complaint(rank(5, 0, 1e12)).find("slice_s 1e+12"), std::string::npos);
  EXPECT_NE(complaint(wake_at(nan)).find("woken at nan s"), std::string::npos);
  EXPECT_NE(complaint(wake_at(-1)).find("woken at -1 s"), std::string::npos);
  const FrameBytes before =
      frame(FrameType::said_rank, uint64_t{5}, int64_t{-1}, int64_t{0}, 0.0, 0.0, 0.0, 0.0);
  EXPECT_NE(complaint(before).find("below 0"), std::string::npos);
}

TEST(Frames, WhatIsNoFrameIsRefused) {
  const std::string text = "hello\nworld\n";
  EXPECT_NE(
      complaint({std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end()})
          .find("leave descriptor 3"),
      std::string::npos);
  FrameBytes empty;
  put(empty, uint32_t{0});
  EXPECT_NE(complaint(empty).find("a frame of 0 bytes"), std::string::npos);
  FrameBytes large;
  put(large, uint32_t{kMaxFrameBytes + 1});
  EXPECT_NE(complaint(large).find("a frame of 65537 bytes"), std::string::npos);
  EXPECT_NE(complaint(frame(FrameType::job, uint64_t{1})).find("type 2"), std::string::npos);
  EXPECT_EQ(complaint(frame(FrameType::said_done, uint32_t{1})), "its Done is too short");
  EXPECT_EQ(complaint(frame(FrameType::said_hello, uint64_t{1})), "its Hello has 4 bytes too many");
}

TEST(Frames, BytesOfChanceAreReadOrRefused) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    FrameReader reader;
    FrameBytes bytes;
    for (uint64_t left = random.below(200); left > 0; --left) {
      // Small numbers make lengths and types that are some.
      bytes.push_back(static_cast<std::byte>(random.chance(0.5) ? random.below(4) : random.next()));
    }
    reader.add(bytes);
    for (auto said = reader.next(); said && said.value(); said = reader.next()) continue;
  }
}

TEST(Frames, WhatTheServiceSaysHasALengthEach) {
  FrameBytes bytes;
  lanes::JobFacts facts;
  facts.options.name = std::string(4000, 'n');
  add_hello(bytes, 1, "a=b");
  add_job(bytes, facts, "somebody");
  add_gone(bytes, JobId(3));
  add_instant(bytes, TimePoint(4), 5);
  std::vector<uint8_t> types;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t length = 0;
    ASSERT_LE(at + sizeof(length), bytes.size());
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    types.push_back(static_cast<uint8_t>(bytes.at(at + sizeof(length))));
    at += sizeof(length) + length;
  }
  EXPECT_EQ(types, (std::vector<uint8_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace laneway::plugin

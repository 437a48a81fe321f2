// Shows how a job's first bytes come into the pool: every byte of the image is written, and the
// slots' bytes take the link's time, told by a manual clock that the link's own sleep advances.
#include "pipeline/initial_image.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "memory/host_pool_access.h"

namespace laneway::pipeline {
namespace {

TEST(InitialImage, IsWrittenWholeAtTheLinksBandwidth) {
  const std::vector<lanes::ImageSlot> slots = {
      {.name = "a", .kind = lanes::SlotKind::parameter, .bytes = 100},
      {.name = "none", .kind = lanes::SlotKind::buffer, .bytes = 0},
      {.name = "b", .kind = lanes::SlotKind::parameter, .bytes = 400},
  };
  const std::vector<std::byte> a(100, std::byte{1});
  const std::vector<std::byte> b(400, std::byte{2});
  const std::array<const void*, 3> bytes = {a.data(), nullptr, b.data()};
  InitialImage initial(slots, bytes);
  const std::array<uint32_t, 2> first_use = {2, 0};
  const ImageLayout layout(slots, first_use, 64);

  ManualClock clock;
  memory::HostPoolAccess pool(std::make_shared<memory::CopyEngine>(
      clock, [&clock](Duration time) { clock.advance(time); }));
  pool.set_bandwidth(1'000);
  std::vector<std::byte> image(1'024, std::byte{0xee});
  ASSERT_TRUE(
      initial.write_to(pool, image.data(), Bytes(1'024), layout, [](Bytes) { return true; }));

  EXPECT_EQ(clock.now(), TimePoint(0) + milliseconds(500)) << "500 bytes at 1,000 a second";
  std::vector<std::byte> expected(1'024);
  std::memcpy(expected.data() + layout.offset(0).count(), a.data(), a.size());
  std::memcpy(expected.data() + layout.offset(2).count(), b.data(), b.size());
  EXPECT_EQ(image, expected);
}

}  // namespace
}  // namespace laneway::pipeline

// Shows which names open a device, and that the others are refused with their text.
#include "memory/device/open_device.h"

#include <gtest/gtest.h>

namespace laneway::memory {
namespace {

TEST(OpenDevice, HostIsTheCpu) {
  const auto device = open_device("host");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device.value()->capabilities().name, "host");
  EXPECT_TRUE(device.value()->capabilities().advances_by_itself);
}

TEST(OpenDevice, WhatThisBuildLacksIsToldFromWhatDoesNotExist) {
  EXPECT_EQ(open_device("cuda:0").error().code, ErrorCode::unsupported);
  for (const char* name : {"", "gpu", "cuda", "cuda:", "cuda:x", "host ", "Host"}) {
    const auto device = open_device(name);
    ASSERT_FALSE(device.ok()) << name;
    EXPECT_EQ(device.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(device.error().message.find("'" + std::string(name) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace laneway::memory

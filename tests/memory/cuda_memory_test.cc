// Shows, on the fake driver, that what is no pool of another process is refused, that children made
// by fork() hold nothing of one, that there is a pool where the platform exports none, and that a
// step that fails leaves nothing behind. What is shared is in cuda_pool_test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/memory/cuda_fixture.h"

namespace laneway::memory {
namespace {

using ::testing::HasSubstr;

using CudaMemoryTest = CudaDeviceTest;

constexpr int64_t kSize = 3'000'000;  // no multiple of a page of the device's

TEST_F(CudaMemoryTest, WhatIsNoPoolIsRefusedAndClosed) {
  const auto refused = [&](int descriptor, Bytes size) {
    const auto attached = device_->attach_pool(descriptor, size);
    EXPECT_FALSE(attached.ok());
    EXPECT_EQ(attached.error().code, ErrorCode::invalid_argument) << attached.error().message;
    EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
  };
  const auto pool = device_->allocate_pool(Bytes(kSize)).value();
  refused(::dup(pool->descriptor()), Bytes(0));
  refused(::dup(pool->descriptor()), mib(64));
  refused(::open("/dev/null", O_RDWR | O_CLOEXEC), Bytes(kSize));
  refused(-1, Bytes(kSize));
  EXPECT_TRUE(device_->health().ok());
  complaints_ = fake_cuda_count("complaints");  // it says the same
}

TEST_F(CudaMemoryTest, ChildrenHoldNoDescriptorAndCannotUseTheDevice) {
  const auto pool = device_->allocate_pool(Bytes(kSize)).value();
  const auto attached = device_->attach_pool(::dup(pool->descriptor()), Bytes(kSize)).value();
  EXPECT_NE(::fcntl(pool->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(attached->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  const auto stream = device_->create_stream().value();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool open = ::fcntl(pool->descriptor(), F_GETFD) != -1 ||
                      ::fcntl(attached->descriptor(), F_GETFD) != -1;
    const Status used = stream->fill(pool->data(), std::byte{1}, Bytes(kSize));
    const bool lost = !used.ok() && used.error().code == ErrorCode::device_lost &&
                      device_->health().error().message.find("fork()") != std::string::npos;
    ::_exit((open ? 1 : 0) + (lost ? 0 : 2));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(device_->health().ok());
}

TEST_F(CudaMemoryTest, WithoutExportThereIsAPoolWithoutDescriptor) {
  for (const char* ability : {"vmm", "fd"}) {
    const Forbid forbid(ability);
    open();
    EXPECT_FALSE(device_->capabilities().pool_is_exportable) << ability;
    const auto pool = device_->allocate_pool(Bytes(kSize)).value();
    EXPECT_EQ(pool->descriptor(), -1);
    EXPECT_EQ(pool->size(), Bytes(kSize));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool->data()) % 4096, 0u);
    EXPECT_EQ(read(pool->data(), kSize), std::vector<std::byte>(kSize));
    const auto stream = device_->create_stream().value();
    EXPECT_TRUE(stream->fill(pool->data() + kSize - 1, std::byte{1}, Bytes(1)).ok());
    EXPECT_FALSE(stream->fill(pool->data() + kSize, std::byte{1}, Bytes(1)).ok());
    EXPECT_TRUE(stream->synchronize().ok());
    const auto attached = device_->attach_pool(::memfd_create("other", MFD_CLOEXEC), mib(2));
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(attached.error().code, ErrorCode::unsupported) << attached.error().message;
  }
}

// Each step of making a pool may fail: what was done before is undone (the fixture counts).
TEST_F(CudaMemoryTest, EveryStepThatFailsIsUndone) {
  for (const char* call : {"cuMemCreate", "cuMemExportToShareableHandle", "cuMemAddressReserve",
                           "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
    fake_cuda_fail_calls(call, CUDA_ERROR_NOT_SUPPORTED, 1);
    const auto pool = device_->allocate_pool(mib(2));
    ASSERT_FALSE(pool.ok()) << call;
    EXPECT_EQ(pool.error().code, ErrorCode::unsupported) << call;
    EXPECT_THAT(pool.error().message, HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
    EXPECT_EQ(fake_cuda_used(), 0u) << call;
  }
}

// A platform that says no only when it comes to it is found out when the device is opened, with the
// call that said no.
TEST_F(CudaMemoryTest, WhyMemoryIsNotExportedIsTold) {
  EXPECT_TRUE(device_->exportable().ok());
  const std::pair<const char*, const char*> refusals[] = {
      {"cuMemCreate", "allocating memory"},
      {"cuMemExportToShareableHandle", "exporting memory"},
      {"cuMemAddressReserve", "reserving addresses"},
      {"cuMemMap", "mapping memory"},
      {"cuMemSetAccess", "opening memory"},
      {"cuMemImportFromShareableHandle", "attaching descriptor"}};
  for (const auto& [call, words] : refusals) {
    fake_cuda_fail_calls(call, CUDA_ERROR_OPERATING_SYSTEM, 1);
    open();
    EXPECT_FALSE(device_->capabilities().pool_is_exportable);
    ASSERT_FALSE(device_->exportable().ok()) << call;
    EXPECT_THAT(device_->exportable().error().message, HasSubstr(words)) << call;
    EXPECT_THAT(device_->exportable().error().message, HasSubstr("CUDA_ERROR_OPERATING_SYSTEM"));
    EXPECT_TRUE(device_->allocate_pool(mib(2)).ok());
  }
  for (const char* ability : {"vmm", "fd"}) {
    const Forbid forbid(ability);
    open();
    EXPECT_THAT(device_->exportable().error().message, HasSubstr("the driver of cuda:0 has no"));
  }
}

// The driver decides: memory that a machine got while it ran is not in what the system first said.
TEST_F(CudaMemoryTest, ThePinnedMemoryThatThereIsIsTheDriversMatter) {
  const size_t asked = fake_cuda_count("cuMemHostAlloc");
  const auto none = device_->allocate_host(Bytes(int64_t{1} << 56));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("65536 TiB"));
  EXPECT_EQ(fake_cuda_count("cuMemHostAlloc"), asked + 1);
}

}  // namespace
}  // namespace laneway::memory

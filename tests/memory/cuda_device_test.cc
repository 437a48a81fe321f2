// Shows, on the fake driver, what only a CUDA device has: refusals in words, errors that last and
// those that do not, events used again, a queue with an end, blocks that are freed in a stream's
// order, partitions, and that the caller's thread keeps its own context.
#include "memory/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "memory/device/limits.h"
#include "tests/memory/cuda_fixture.h"

namespace laneway::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(int ordinal, ErrorCode code = ErrorCode::unsupported) {
  const auto device = CudaDevice::open(ordinal);
  if (device.ok()) return "opened";
  EXPECT_EQ(device.error().code, code);
  return device.error().message;
}

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->capabilities().name, "cuda:0");
  EXPECT_EQ(device_->name(), "Fake H100");
  EXPECT_EQ(device_->sm_count(), 132u);
  EXPECT_FALSE(device_->capabilities().pool_is_addressable);
  EXPECT_TRUE(device_->health().ok());
  const Bytes before = device_->free_memory();
  const auto block = device_->allocate_pool(mib(8)).value();
  EXPECT_EQ(device_->free_memory(), before - mib(8));
}

TEST_F(CudaDeviceTest, AMachineWithoutSuchADeviceIsToldSo) {
  EXPECT_THAT(refusal(3), AllOf(HasSubstr("there is no cuda:3"), HasSubstr("1 CUDA device, cuda:0"),
                                HasSubstr("CUDA_VISIBLE_DEVICES")));
  const Forbid device("device");
  EXPECT_THAT(refusal(0), AllOf(HasSubstr("there is no cuda:0"), HasSubstr("no CUDA device"),
                                HasSubstr("--device host")));
}

TEST_F(CudaDeviceTest, ADeviceThatIsTakenIsNamed) {
  device_.reset();
  fake_cuda_fail_calls("cuDevicePrimaryCtxRetain", CUDA_ERROR_DEVICE_UNAVAILABLE, 1);
  EXPECT_THAT(refusal(0, ErrorCode::unavailable), HasSubstr("another process has the device"));
  fake_cuda_fail_calls("cuDeviceGetName", CUDA_ERROR_OUT_OF_MEMORY, 1);
  EXPECT_THAT(refusal(0, ErrorCode::out_of_memory), HasSubstr("opening the device on cuda:0"));
}

TEST_F(CudaDeviceTest, AnErrorThatLastsIsRememberedAndAnswersEverything) {
  const auto stream = device_->create_stream().value();
  const auto mark = device_->create_event().value();
  const auto block = device_->allocate_pool(kib(4)).value();
  const auto lost = [](const Status& status) {
    return !status.ok() && status.error().code == ErrorCode::device_lost;
  };
  int called = 0;
  ASSERT_TRUE(fake_cuda_hold_stream(CudaDevice::native(*stream)));
  ASSERT_TRUE(fake_cuda_fail_in_stream(CudaDevice::native(*stream), CUDA_ERROR_ASSERT));
  ASSERT_TRUE(stream->host_function([&] { ++called; }).ok());
  ASSERT_TRUE(stream->record(*mark).ok());
  EXPECT_TRUE(device_->health().ok());
  ASSERT_TRUE(fake_cuda_release_stream(CudaDevice::native(*stream)));
  EXPECT_TRUE(lost(stream->synchronize()));
  EXPECT_TRUE(lost(mark->synchronize()));
  EXPECT_EQ(mark->query(), EventState::done) << "nobody may wait for it for ever";
  EXPECT_TRUE(lost(stream->fill(block->data(), std::byte{1}, kib(4))));
  EXPECT_TRUE(lost(stream->host_function([&] { ++called; })));
  EXPECT_EQ(device_->allocate_host(kib(4)).error().code, ErrorCode::device_lost);
  EXPECT_EQ(called, 0);
  ASSERT_TRUE(lost(device_->health()));
  EXPECT_THAT(device_->health().error().message,
              AllOf(HasSubstr("CUDA_ERROR_ASSERT (device-side assert triggered)"),
                    HasSubstr("cuda:0"), HasSubstr("a new one can")));
}

// LibTorch's own calls meet most faults: nothing of ours has heard of them.
TEST_F(CudaDeviceTest, HealthAsksTheDevice) {
  EXPECT_TRUE(device_->health().ok());
  fake_cuda_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_FALSE(device_->health().ok());
  EXPECT_EQ(device_->health().error().code, ErrorCode::device_lost);
  EXPECT_THAT(device_->health().error().message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

// A stream of our own with nothing in it: whatever it answers is the device's state.
TEST_F(CudaDeviceTest, AnyErrorOfTheQuestionIsTheDevices) {
  fake_cuda_fail_calls("cuStreamQuery", CUDA_ERROR_UNKNOWN, 1);
  const Status asked = device_->health();
  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.error().code, ErrorCode::device_lost);
  EXPECT_THAT(asked.error().message, HasSubstr("CUDA_ERROR_UNKNOWN"));
}

TEST_F(CudaDeviceTest, WhatIsMissingAroundTheDeviceIsNamed) {
  const auto refusal = [this](CUresult answer) {
    fake_cuda_fail_calls("cuMemHostAlloc", answer, 1);
    const Error error = device_->allocate_host(kib(4)).error();
    EXPECT_EQ(error.code, ErrorCode::unavailable);
    return error.message;
  };
  EXPECT_THAT(refusal(CUDA_ERROR_SYSTEM_NOT_READY), HasSubstr("start nvidia-fabricmanager"));
  EXPECT_THAT(refusal(CUDA_ERROR_MPS_CONNECTION_FAILED), HasSubstr("nvidia-cuda-mps-control"));
  EXPECT_TRUE(device_->health().ok());
}

TEST_F(CudaDeviceTest, AnErrorThatPassesIsNotRemembered) {
  const auto stream = device_->create_stream().value();
  const auto block = device_->allocate_pool(kib(4)).value();
  const auto host = device_->allocate_host(kib(4)).value();
  fake_cuda_fail_calls("cuMemcpyHtoDAsync", CUDA_ERROR_INVALID_VALUE, 1);
  const Status failed = stream->copy_to_device(block->data(), host->data(), kib(4));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::failed);
  EXPECT_EQ(failed.error().message,
            "copy to device on cuda:0: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  EXPECT_TRUE(device_->health().ok());
  EXPECT_TRUE(stream->copy_to_device(block->data(), host->data(), kib(4)).ok());
  fake_cuda_fail_calls("cuLaunchHostFunc", CUDA_ERROR_OUT_OF_MEMORY, 1);
  int called = 0;
  EXPECT_EQ(stream->host_function([&] { called += 1; }).error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(stream->host_function([&] { called += 10; }).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(called, 10);
}

TEST_F(CudaDeviceTest, EventsAreUsedAgainAndAreNewEachTime) {
  const auto stream = device_->create_stream().value();
  const size_t made = fake_cuda_count("cuEventCreate");
  for (int i = 0; i < 500; ++i) {
    const auto event = device_->create_event().value();
    ASSERT_TRUE(stream->record(*event).ok());
  }
  EXPECT_LE(fake_cuda_count("cuEventCreate") - made, 1u);
  fake_cuda_hold_stream(CudaDevice::native(*stream));
  { ASSERT_TRUE(stream->record(*device_->create_event().value()).ok()); }
  const auto next = device_->create_event().value();  // the driver's is still pending
  EXPECT_EQ(next->query(), EventState::done);
  EXPECT_TRUE(next->synchronize().ok());
  fake_cuda_release_stream(CudaDevice::native(*stream));
}

// The fake's queue has no end, so that ours is met.
TEST_F(CudaDeviceTest, AFullQueueIsRefusedUntilWorkIsDone) {
  const auto stream = device_->create_stream().value();
  const auto event = device_->create_event().value();
  fake_cuda_hold_stream(CudaDevice::native(*stream));
  uint32_t enqueued = 0;
  Status last;
  while (enqueued <= limits::kMaxStreamQueue && (last = stream->record(*event)).ok()) ++enqueued;
  EXPECT_EQ(enqueued, limits::kMaxStreamQueue);
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, ErrorCode::refused);
  fake_cuda_release_stream(CudaDevice::native(*stream));
  ASSERT_TRUE(event->synchronize().ok());
  EXPECT_TRUE(stream->record(*event).ok()) << "room, although the stream was not synchronized";
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(stream->record(*event).ok());
}

TEST_F(CudaDeviceTest, ABlockIsFreedWhenTheWorkBeforeItIsDone) {
  const auto stream = device_->create_stream().value();
  auto block = device_->allocate_pool(mib(2)).value();
  auto pinned = device_->allocate_host(mib(2)).value();
  std::byte* const address = block->data();
  fake_cuda_hold_stream(CudaDevice::native(*stream));
  ASSERT_TRUE(stream->copy_to_device(address, pinned->data(), mib(2)).ok());
  device_->free_on(std::move(block), *stream);
  device_->free_on(std::move(pinned), *stream);
  EXPECT_EQ(fake_cuda_live("memory"), 1u);
  EXPECT_EQ(fake_cuda_live("pinned"), 1u);
  EXPECT_FALSE(stream->fill(address, std::byte{1}, Bytes(1)).ok()) << "it was given back";
  fake_cuda_release_stream(CudaDevice::native(*stream));
  ASSERT_TRUE(stream->synchronize().ok());
  const auto next = device_->allocate_host(kib(4)).value();
  EXPECT_EQ(fake_cuda_live("memory"), 0u);
  EXPECT_EQ(fake_cuda_live("pinned"), 1u);
}

TEST_F(CudaDeviceTest, NoRoomIsSaidOnlyWhenNothingIsBeingFreed) {
  const auto stream = device_->create_stream().value();
  const Bytes most = device_->free_memory() - mib(8);
  auto block = device_->allocate_pool(most).value();
  const auto refused = device_->allocate_pool(mib(16));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("16 MiB"), HasSubstr("cuda:0 (Fake H100) has 8 MiB free")));
  // The work before it ends while allocate_pool waits.
  fake_cuda_hold_stream(CudaDevice::native(*stream));
  ASSERT_TRUE(stream->fill(block->data(), std::byte{1}, kib(4)).ok());
  device_->free_on(std::move(block), *stream);
  const CUstream native = CudaDevice::native(*stream);
  std::thread later([&] { fake_cuda_release_stream(native); });
  const auto made = device_->allocate_pool(mib(16));
  later.join();
  EXPECT_TRUE(made.ok());
}

TEST_F(CudaDeviceTest, FreeingOnAStreamThatCannotBeMarkedWaits) {
  const auto stream = device_->create_stream().value();
  auto block = device_->allocate_pool(mib(2)).value();
  ASSERT_TRUE(stream->fill(block->data(), std::byte{1}, mib(2)).ok());
  fake_cuda_fail_calls("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 1);
  device_->free_on(std::move(block), *stream);
  EXPECT_EQ(fake_cuda_live("memory"), 0u);
  EXPECT_TRUE(stream->synchronize().ok()) << "the fill met its memory";
}

TEST_F(CudaDeviceTest, PartitionsAreEqualAndTheirStreamsComputeInThem) {
  const auto parts = device_->partition(10).value();  // the hardware has them in eights
  ASSERT_EQ(parts.size(), 8u);
  for (const auto& part : parts) EXPECT_EQ(part->sms(), 16u);
  const auto block = device_->allocate_pool(kib(4)).value();
  const auto whole = device_->create_stream().value();
  const auto within = device_->create_stream(parts[3].get()).value();
  CUgreenCtx green = nullptr;
  ASSERT_EQ(cuStreamGetGreenCtx(within->native(), &green), CUDA_SUCCESS);
  EXPECT_EQ(green, parts[3]->handle());
  ASSERT_EQ(cuStreamGetGreenCtx(CudaDevice::native(*whole), &green), CUDA_SUCCESS);
  EXPECT_EQ(green, nullptr);
  // Memory and events are those of the whole device.
  const auto written = device_->create_event().value();
  ASSERT_TRUE(within->fill(block->data(), std::byte{7}, kib(4)).ok());
  ASSERT_TRUE(within->record(*written).ok());
  ASSERT_TRUE(whole->wait(*written).ok());
  ASSERT_TRUE(whole->copy_on_device(block->data() + 2048, block->data(), kib(2)).ok());
  ASSERT_TRUE(whole->synchronize().ok());
  EXPECT_EQ(read(block->data(), 4096), std::vector<std::byte>(4096, std::byte{7}));
}

TEST_F(CudaDeviceTest, PartitionsThatCannotBeAreRefusedInWords) {
  const auto many = device_->partition(133);
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(many.error().message,
              AllOf(HasSubstr("133"), HasSubstr("cuda:0 has 132"), HasSubstr("at least 8")));
  EXPECT_EQ(device_->partition(0).error().code, ErrorCode::invalid_argument);
  const auto odd = device_->partition(132);  // in eights, 136
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(odd.error().message, HasSubstr("132 multiprocessors"));
  EXPECT_THAT(odd.error().message, HasSubstr("multiples of 8"));
  fake_cuda_fail_calls("cuGreenCtxCreate", CUDA_ERROR_NOT_PERMITTED, 1);
  EXPECT_EQ(device_->partition(8).error().code, ErrorCode::unsupported);
  const Forbid green("green");
  const auto none = device_->partition(8);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_THAT(none.error().message, HasSubstr("leave --lane-sms at 0"));
}

TEST_F(CudaDeviceTest, AThreadKeepsTheContextThatItHad) {
  const auto block = device_->allocate_pool(kib(4)).value();
  const auto stream = device_->create_stream().value();
  CUcontext current = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_TRUE(stream->fill(block->data(), std::byte{1}, kib(4)).ok());
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  // Who works with the device's context anyhow pays no switch.
  ASSERT_EQ(cuCtxSetCurrent(device_->context().handle()), CUDA_SUCCESS);
  const size_t switches = fake_cuda_count("cuCtxPushCurrent");
  ASSERT_TRUE(stream->fill(block->data(), std::byte{1}, kib(4)).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(fake_cuda_count("cuCtxPushCurrent"), switches);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

// A capture in the default mode forbids other threads to allocate or ask, and is spoiled when they
// do: the user's own captures must not meet our lanes.
TEST_F(CudaDeviceTest, AnothersCaptureIsNeitherSpoiledNorInTheWay) {
  ASSERT_EQ(cuCtxSetCurrent(device_->context().handle()), CUDA_SUCCESS);
  CUstream theirs = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(theirs, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  Status done;
  std::thread lane([&] {
    const auto stream = device_->create_stream().value();
    const auto event = device_->create_event().value();
    auto block = device_->allocate_pool(mib(2)).value();
    const auto pinned = device_->allocate_host(kib(4)).value();
    done = stream->copy_to_device(block->data(), pinned->data(), kib(4));
    if (done.ok()) done = stream->record(*event);
    event->query();
    if (done.ok()) done = event->synchronize();
    device_->free_on(std::move(block), *stream);
    if (done.ok()) done = stream->synchronize();
    if (done.ok()) done = device_->health();
  });
  lane.join();
  EXPECT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(cuStreamEndCapture(theirs, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(theirs), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

}  // namespace
}  // namespace laneway::memory

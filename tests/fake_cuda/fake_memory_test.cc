// What the fake's memory shows: bytes arrive where and when they would on a device, the CPU cannot
// reach them by mistake, ranges that are gone are found out, exported memory is really shared.
#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/fake_cuda/fake_context.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::fake_cuda {
namespace {

using FakeMemory = FakeContext;

constexpr size_t kGrain = size_t{2} << 20;

CUmemAllocationProp properties() {
  CUmemAllocationProp asked{};
  asked.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  asked.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  asked.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return asked;
}

// A reservation with the memory of `handle` in it; everything but the handle is given back.
class Mapped {
 public:
  Mapped(CUmemGenericAllocationHandle handle, size_t size) : size_(size) {
    const CUmemAccessDesc access{properties().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(address, size, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemSetAccess(address, size, &access, 1), CUDA_SUCCESS);
  }
  ~Mapped() {
    EXPECT_EQ(cuMemUnmap(address, size_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(address, size_), CUDA_SUCCESS);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  CUdeviceptr address = 0;

 private:
  const size_t size_;
};

TEST_F(FakeMemory, CopiesThereAndBack) {
  FakeStream stream;
  CUdeviceptr device = 0, other = 0;
  ASSERT_EQ(cuMemAlloc(&device, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&other, 1000), CUDA_SUCCESS);
  std::vector<char> sent(1000, 'x'), got(1000, ' ');
  ASSERT_EQ(cuMemcpyHtoDAsync(device, sent.data(), 1000, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(device + 10, 'y', 5, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(other, device, 1000, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(got.data(), other, 1000, stream), CUDA_SUCCESS);
  std::fill_n(sent.begin() + 10, 5, 'y');
  EXPECT_EQ(got, sent);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
  EXPECT_EQ(complaints(), 0u);
}

TEST_F(FakeMemory, PinnedMemoryIsReadAtTheCopysTurnPageableMemoryAtTheCall) {
  FakeStream stream;
  CUdeviceptr device = 0;
  void* pinned = nullptr;
  char pageable[2] = {'a', 'a'}, got[4];
  ASSERT_EQ(cuMemAlloc(&device, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(&pinned, 2, 0), CUDA_SUCCESS);
  std::memset(pinned, 'a', 2);
  fake_cuda_hold();
  ASSERT_EQ(cuMemcpyHtoDAsync(device, pinned, 2, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(device + 2, pageable, 2, stream), CUDA_SUCCESS);
  std::memset(pinned, 'b', 2);
  std::memset(pageable, 'b', 2);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(fake_cuda_pending(), 2u);
  fake_cuda_release();
  ASSERT_EQ(cuMemcpyDtoHAsync(got, device, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(std::string(got, 4), "bbaa");
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

using FakeMemoryDeathTest = FakeMemory;

TEST_F(FakeMemoryDeathTest, TheCpuCannotTouchADeviceAddress) {
  CUdeviceptr device = 0;
  ASSERT_EQ(cuMemAlloc(&device, 64), CUDA_SUCCESS);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(device) = 1, "");
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(FakeMemory, AnAddressThatIsNotMappedIsRefused) {
  CUdeviceptr device = 0;
  char byte = 0;
  ASSERT_EQ(cuMemAlloc(&device, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(device + 64, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(device + 60, 0, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(&byte, device, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(device), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(complaints(), 4u);
}

// Memory that goes while work on it is queued loses the device, as it would.
TEST_F(FakeMemory, MemoryUnmappedBeforeTheCopysTurnLosesTheDevice) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp asked = properties();
  ASSERT_EQ(cuMemCreate(&handle, kGrain, &asked, 0), CUDA_SUCCESS);
  FakeStream stream;
  {
    const Mapped mapped(handle, kGrain);
    fake_cuda_hold();
    ASSERT_EQ(cuMemsetD8Async(mapped.address, 0, 8, stream), CUDA_SUCCESS);
  }
  fake_cuda_release();
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_ILLEGAL_ADDRESS);
  fake_cuda_fail(0);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(FakeMemory, ExportedMemoryIsShared) {
  CUmemGenericAllocationHandle handle = 0, imported = 0;
  const CUmemAllocationProp asked = properties();
  int fd = -1;
  ASSERT_EQ(cuMemCreate(&handle, kGrain, &asked, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  void* const as_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  ASSERT_EQ(cuMemImportFromShareableHandle(&imported, as_handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(fd);
  char got = 0;
  {
    const Mapped one(handle, kGrain), two(imported, kGrain);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_NE(one.address, two.address);
    ASSERT_EQ(cuMemsetD8(one.address + 5, 'z', 1), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoH(&got, two.address + 5, 1), CUDA_SUCCESS);
  }
  EXPECT_EQ(got, 'z');
  EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_EQ(fake_cuda_used(), 0u);
}

TEST_F(FakeMemory, WithoutAccessNothingIsReached) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp asked = properties();
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemCreate(&handle, kGrain, &asked, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&address, 2 * kGrain, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + kGrain + 512, kGrain, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(address + kGrain, kGrain, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(address + kGrain, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kGrain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address + kGrain, kGrain), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kGrain), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(FakeMemory, AbilitiesCanBeTakenAway) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp asked = properties();
  int supported = -1;
  fake_cuda_forbid("fd", 1);
  EXPECT_EQ(cuMemCreate(&handle, kGrain, &asked, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuDeviceGetAttribute(
                &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(supported, 0);
  fake_cuda_forbid("fd", 0);
  CUdeviceptr device = 0;
  fake_cuda_fail_calls("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1);
  EXPECT_EQ(cuMemAlloc(&device, 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&device, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(FakeMemory, RunsOut) {
  size_t free = 0, total = 0;
  CUdeviceptr device = 0, more = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, total);
  ASSERT_EQ(cuMemAlloc(&device, free - kGrain), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&more, 2 * kGrain), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

}  // namespace
}  // namespace laneway::fake_cuda

// Shows that shared memory is zero, sealed, shared through its descriptor, and that what is not
// exactly that is refused when attached.
#include "memory/os/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace laneway::memory {
namespace {

TEST(SharedMemory, IsZeroAndOfTheAskedSize) {
  const auto memory = SharedMemory::create("laneway-test", kib(64)).value();
  EXPECT_EQ(memory.size(), kib(64));
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + (64 << 10),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(SharedMemory, CannotBeShrunkGrownOrUnsealed) {
  const auto memory = SharedMemory::create("laneway-test", kib(64)).value();
  EXPECT_EQ(::ftruncate(memory.descriptor(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory.descriptor(), 128 << 10), -1);
  EXPECT_EQ(::fcntl(memory.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SharedMemory, TwoMappingsShowTheSameBytesAndOutliveEachOther) {
  auto first = SharedMemory::create("laneway-test", kib(8));
  ASSERT_TRUE(first.ok());
  const auto second = SharedMemory::attach(::dup(first.value().descriptor()), kib(8));
  ASSERT_TRUE(second.ok()) << second.error().message;
  first.value().data()[5000] = std::byte{42};
  EXPECT_EQ(second.value().data()[5000], std::byte{42});
  { const SharedMemory gone = std::move(first).value(); }
  EXPECT_EQ(second.value().data()[5000], std::byte{42});
}

TEST(SharedMemory, PrefaultedPagesAreResident) {
  const auto memory = SharedMemory::create("laneway-test", mib(1), {.prefault = true}).value();
  std::vector<unsigned char> resident(256);
  ASSERT_EQ(::mincore(memory.data(), 1 << 20, resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](unsigned char r) { return r & 1; }));
}

TEST(SharedMemory, IsNotInChildrenItIsKeptFrom) {
  auto memory = SharedMemory::create("laneway-test", mib(1)).value();
  ASSERT_TRUE(memory.keep_from_children());
  memory.data()[5] = std::byte{1};
  const SharedMemory moved = std::move(memory);
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident[256];
    const bool mapped = ::mincore(moved.data(), 1 << 20, resident) == 0;
    const bool open = ::fcntl(moved.descriptor(), F_GETFD) != -1;
    ::_exit((mapped ? 1 : 0) + (open ? 2 : 0));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(moved.data()[5], std::byte{1});
}

TEST(SharedMemory, ADescriptorThatWasClosedIsNotClosedInChildrenUnderItsNextOwner) {
  int number = -1;
  {
    auto memory = SharedMemory::create("laneway-test", kib(4)).value();
    ASSERT_TRUE(memory.keep_from_children());
    number = memory.descriptor();
  }
  const int next = ::dup(0);
  ASSERT_EQ(next, number);  // the lowest that is free
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(next, F_GETFD) != -1 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(next);
}

TEST(SharedMemory, ImpossibleRequestsNameTheSize) {
  const auto empty = SharedMemory::create("laneway-test", Bytes(0));
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::invalid_argument);
  const auto huge = SharedMemory::create("laneway-test", Bytes(int64_t{1} << 56));
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(huge.error().message.find("65536 TiB"), std::string::npos);
}

TEST(SharedMemory, AttachRefusesWhatIsNotSealedMemoryOfThatSize) {
  const auto refused = [](int descriptor, Bytes size) {
    const auto attached = SharedMemory::attach(descriptor, size);
    return !attached.ok() && attached.error().code == ErrorCode::invalid_argument;
  };
  const int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, 4096), 0);
  EXPECT_TRUE(refused(::dup(unsealed), Bytes(4096)));
  ASSERT_EQ(::fcntl(unsealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(refused(unsealed, Bytes(4096))) << "it can still be grown, and unsealed no more";
  const auto good = SharedMemory::create("laneway-test", Bytes(4096)).value();
  EXPECT_TRUE(refused(::dup(good.descriptor()), Bytes(8192)));
  EXPECT_TRUE(refused(::dup(good.descriptor()), Bytes(0)));
  EXPECT_TRUE(refused(::open("/dev/null", O_RDWR | O_CLOEXEC), Bytes(4096)));
  EXPECT_TRUE(refused(-1, Bytes(4096)));
}

TEST(SharedMemory, RefusedDescriptorsAreClosed) {
  const auto good = SharedMemory::create("laneway-test", Bytes(4096)).value();
  const int copy = ::dup(good.descriptor());
  ASSERT_FALSE(SharedMemory::attach(copy, Bytes(1)).ok());
  struct stat status {};
  EXPECT_EQ(::fstat(copy, &status), -1);
}

}  // namespace
}  // namespace laneway::memory

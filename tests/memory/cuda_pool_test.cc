// Shows, on a GPU or the fake one, that a pool is the same memory in two processes, that it
// outlives the process that made it as long as somebody holds its descriptor, and that streams of
// partitions work on it. Nothing here knows which driver it has. The other processes are this
// program too.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "memory/stream_pool_access.h"
#include "tests/support/cuda_test_device.h"

extern char** environ;

namespace laneway::memory {
namespace {

constexpr int64_t kSize = 3'000'000;  // no multiple of a page of the device's

std::vector<std::byte> pattern(size_t add) {
  std::vector<std::byte> bytes(kSize);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(uint8_t(i % 251 + add));
  return bytes;
}

bool write(Device& device, const MemoryBlock& pool, const std::vector<std::byte>& bytes) {
  auto access = StreamPoolAccess::create(device);
  return access.ok() && access.value()->write(pool.data(), bytes.data(), Bytes(kSize)).ok();
}

std::vector<std::byte> read(Device& device, const MemoryBlock& pool) {
  std::vector<std::byte> bytes(kSize);
  auto access = StreamPoolAccess::create(device);
  const bool done =
      access.ok() && access.value()->read(bytes.data(), pool.data(), Bytes(kSize)).ok();
  return done ? bytes : std::vector<std::byte>();
}

// One byte with a descriptor, over a pair of sockets.
struct DescriptorMessage {
  DescriptorMessage() {
    part = {&byte, 1};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  char byte = 0;
  iovec part{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

bool send_descriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* const header = CMSG_FIRSTHDR(&message.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return ::sendmsg(socket, &message.message, 0) == 1;
}

int receive_descriptor(int socket) {
  DescriptorMessage message;
  if (::recvmsg(socket, &message.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message.message);
  int descriptor = -1;
  if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

// What this program ends with in another process; -1 when it does not end by itself.
int run_self(const std::string& task, int descriptor) {
  const std::string number = std::to_string(descriptor);
  std::string self = "/proc/self/exe";
  std::string words[] = {self, task, number};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Maps the pool behind the descriptor, and adds 1 to each of its bytes.
int add_one(int descriptor) {
  const auto device = testing::cuda_test_device();
  if (device == nullptr) return 11;
  const auto pool = device->attach_pool(descriptor, Bytes(kSize));
  if (!pool.ok()) return 12;
  if (read(*device, *pool.value()) != pattern(0)) return 13;
  return write(*device, *pool.value(), pattern(1)) ? 0 : 14;
}

// Makes a pool, hands its descriptor over the socket, and is gone.
int make(int socket) {
  const auto device = testing::cuda_test_device();
  if (device == nullptr) return 11;
  const auto pool = device->allocate_pool(Bytes(kSize));
  if (!pool.ok()) return 12;
  if (!write(*device, *pool.value(), pattern(0))) return 13;
  return send_descriptor(socket, pool.value()->descriptor()) ? 0 : 14;
}

class LANEWAY_CUDA_SUITE : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = testing::cuda_test_device();
    if (device_ == nullptr) GTEST_SKIP() << "no CUDA device here";
    if (!device_->exportable().ok()) {
      GTEST_SKIP() << "no pool is exported here: " << device_->exportable().error().message;
    }
  }

  std::unique_ptr<CudaDevice> device_;
};

TEST_F(LANEWAY_CUDA_SUITE, APoolIsTheSameMemoryInAnotherProcess) {
  const auto pool = device_->allocate_pool(Bytes(kSize)).value();
  ASSERT_TRUE(write(*device_, *pool, pattern(0)));
  const int copy = ::dup(pool->descriptor());  // one that programs inherit
  EXPECT_EQ(run_self("--add-one", copy), 0);
  ::close(copy);
  EXPECT_EQ(read(*device_, *pool), pattern(1));
}

TEST_F(LANEWAY_CUDA_SUITE, APoolOutlivesTheProcessThatMadeIt) {
  int sockets[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  EXPECT_EQ(run_self("--make", sockets[1]), 0);
  ::close(sockets[1]);
  const int descriptor = receive_descriptor(sockets[0]);
  ::close(sockets[0]);
  const auto pool = device_->attach_pool(descriptor, Bytes(kSize));
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(read(*device_, *pool.value()), pattern(0));
}

TEST_F(LANEWAY_CUDA_SUITE, ADescriptorKeepsTheMemoryOfAPoolThatIsGone) {
  auto pool = device_->allocate_pool(Bytes(kSize)).value();
  ASSERT_TRUE(write(*device_, *pool, pattern(0)));
  const int copy = ::dup(pool->descriptor());
  pool.reset();
  const auto again = device_->attach_pool(copy, Bytes(kSize));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again.value()->descriptor(), copy);
  EXPECT_EQ(read(*device_, *again.value()), pattern(0));
}

TEST_F(LANEWAY_CUDA_SUITE, TwoMappingsInOneProcessHaveTheirOwnAddresses) {
  const auto first = device_->allocate_pool(Bytes(kSize)).value();
  const auto second = device_->attach_pool(::dup(first->descriptor()), Bytes(kSize)).value();
  EXPECT_NE(first->data(), second->data());
  ASSERT_TRUE(write(*device_, *first, pattern(3)));
  EXPECT_EQ(read(*device_, *second), pattern(3));
}

TEST_F(LANEWAY_CUDA_SUITE, StreamsOfPartitionsWorkOnItInTheOrderOfEvents) {
  const auto parts = device_->partition(8);
  if (!parts.ok()) GTEST_SKIP() << parts.error().message;
  ASSERT_GE(parts.value().size(), 2u);
  const auto pool = device_->allocate_pool(Bytes(kSize)).value();
  const auto first = device_->create_stream(parts.value()[0].get()).value();
  const auto second = device_->create_stream(parts.value()[1].get()).value();
  const auto filled = device_->create_event().value();
  ASSERT_TRUE(first->fill(pool->data(), std::byte{1}, Bytes(kSize)).ok());
  ASSERT_TRUE(first->record(*filled).ok());
  ASSERT_TRUE(second->wait(*filled).ok());
  ASSERT_TRUE(second->fill(pool->data() + 100, std::byte{2}, Bytes(kSize - 100)).ok());
  ASSERT_TRUE(second->synchronize().ok());
  std::vector<std::byte> expected(kSize, std::byte{2});
  std::memset(expected.data(), 1, 100);
  EXPECT_EQ(read(*device_, *pool), expected);
  EXPECT_TRUE(device_->health().ok());
}

}  // namespace
}  // namespace laneway::memory

int main(int count, char** arguments) {
  const std::string task = count == 3 ? arguments[1] : "";
  if (task == "--add-one") return laneway::memory::add_one(std::atoi(arguments[2]));  // NOLINT
  if (task == "--make") return laneway::memory::make(std::atoi(arguments[2]));        // NOLINT
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}

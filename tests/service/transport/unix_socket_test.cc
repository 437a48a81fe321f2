// Shows that a listening socket has the access bits that were asked for whatever the umask, and
// that every way of not getting a connection has its own code.
#include "service/transport/unix_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace laneway::service {
namespace {

class UnixSocket : public ::testing::Test {
 protected:
  UnixSocket() {
    std::string folder = ::testing::TempDir() + "lwXXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder + "/s";
  }
  ~UnixSocket() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  std::string folder_, path_;
};

TEST_F(UnixSocket, HasTheAccessBitsThatWereAskedForWhateverTheUmask) {
  for (const mode_t mask : {0777, 0022, 0}) {
    const mode_t before = umask(mask);
    const Result<Descriptor> listener = listen_unix(path_, 0660);
    umask(before);
    ASSERT_TRUE(listener.ok());
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0660u);
  }
}

TEST_F(UnixSocket, ConnectsAndAccepts) {
  const Result<Descriptor> listener = listen_unix(path_, 0600);
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(accept_unix(listener.value()).value().has_value());
  const Result<Descriptor> connection = connect_unix(path_);
  ASSERT_TRUE(connection.ok());
  const Result<std::optional<Descriptor>> accepted = accept_unix(listener.value());
  ASSERT_TRUE(accepted.ok() && accepted.value().has_value());
  EXPECT_EQ(write(connection.value().get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read((*accepted.value()).get(), &byte, 1), 1);
}

TEST_F(UnixSocket, NobodyThereIsUnavailable) {
  EXPECT_EQ(connect_unix(path_).error().code, ErrorCode::unavailable);
  { ASSERT_TRUE(listen_unix(path_, 0600).ok()); }  // a file that nobody listens on is left
  const Result<Descriptor> connection = connect_unix(path_);
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().code, ErrorCode::unavailable);
  EXPECT_THAT(connection.error().message, ::testing::HasSubstr(path_));
}

TEST_F(UnixSocket, APathThatIsTooLongIsNamedWithTheLimit) {
  const Result<Descriptor> listener = listen_unix("/" + std::string(107, 'x'), 0600);
  ASSERT_FALSE(listener.ok());
  EXPECT_THAT(listener.error().message, ::testing::HasSubstr("has 108 bytes; 1 to 107"));
}

}  // namespace
}  // namespace laneway::service

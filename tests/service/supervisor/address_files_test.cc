// The files of an address: one owner at a time, whose lock goes with it however it ends; folder and
// sockets that only their owner can have put there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "service/supervisor/listening_sockets.h"
#include "service/supervisor/lock_file.h"
#include "service/transport/unix_socket.h"
#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

class AddressFiles : public ::testing::Test {
 protected:
  Address address() const {
    return Address::parse("ipc://" + folder_.path() + "/here/a.sock").value();
  }
  std::string folder() const { return folder_.path() + "/here"; }
  mode_t mode_of(const std::string& path) const {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }
  // The lock, which must be free.
  std::optional<LockFile> lock() const {
    auto taken = LockFile::take(address());
    EXPECT_TRUE(taken.ok());
    if (!std::holds_alternative<LockFile>(taken.value())) return std::nullopt;
    return std::get<LockFile>(std::move(taken).value());
  }

 private:
  testing::ScratchFolder folder_;
};

TEST_F(AddressFiles, TheFolderIsMadeForOwnerAndGroupWhateverTheUmask) {
  const mode_t before = ::umask(0777);
  const Status status = prepare_folder(folder());
  ::umask(before);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(mode_of(folder()), 0750u);
  EXPECT_TRUE(prepare_folder(folder()).ok());
}

TEST_F(AddressFiles, AFolderThatOthersCanWriteIsRefused) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  for (const mode_t mode : {0770u, 0752u, 01777u}) {
    ASSERT_EQ(::chmod(folder().c_str(), mode), 0);
    const Status status = prepare_folder(folder());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::refused);
    EXPECT_THAT(status.error().message, HasSubstr("chmod go-w"));
  }
}

TEST_F(AddressFiles, ALinkInPlaceOfTheFolderIsRefused) {
  const std::string real = folder() + "-real";
  ASSERT_TRUE(prepare_folder(real).ok());
  std::filesystem::create_directory_symlink(real, folder());
  const Status status = prepare_folder(folder());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("a link"));
}

TEST_F(AddressFiles, AFolderOfSomebodyElseIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make somebody else's folder";
  ASSERT_TRUE(prepare_folder(folder()).ok());
  ASSERT_EQ(::chown(folder().c_str(), 12345, 12345), 0);
  const Status status = prepare_folder(folder());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("belongs to user 12345"));
}

TEST_F(AddressFiles, TheSocketsAreForOwnerAndGroupAndGoWithTheirObject) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  {
    const mode_t before = ::umask(0);
    const auto sockets = ListeningSockets::open(address());
    ::umask(before);
    ASSERT_TRUE(sockets.ok());
    EXPECT_EQ(mode_of(address().path()), 0660u);
    EXPECT_EQ(mode_of(address().descriptor_path()), 0660u);
    EXPECT_TRUE(connect_unix(address().path()).ok());
    EXPECT_TRUE(connect_unix(address().descriptor_path()).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(AddressFiles, LeftOverSocketsAreReplacedButNothingElseIs) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  ASSERT_TRUE(listen_unix(address().path(), 0600).ok());  // its owner is gone, the file is there
  ASSERT_TRUE(ListeningSockets::open(address()).ok());
  std::ofstream(address().path()) << "precious";
  const auto sockets = ListeningSockets::open(address());
  ASSERT_FALSE(sockets.ok());
  EXPECT_THAT(sockets.error().message, HasSubstr("no socket: remove it"));
  EXPECT_TRUE(std::filesystem::is_regular_file(address().path()));
}

TEST_F(AddressFiles, ASocketThatIsRemovedOrReplacedIsNoticedAndAStrangersIsLeftAlone) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  const std::string moved = address().path() + ".moved";
  {
    auto opened = ListeningSockets::open(address());
    ASSERT_TRUE(opened.ok());
    const ListeningSockets sockets = std::move(opened).value();
    EXPECT_EQ(sockets.lost(), std::nullopt);
    std::filesystem::rename(address().path(), moved);
    EXPECT_EQ(sockets.lost(), address().path() + " was removed");
    const auto other = listen_unix(address().path(), 0600);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(sockets.lost(),
              address().path() + " was replaced, by user " + std::to_string(::geteuid()));
    std::filesystem::rename(moved, address().path());
    EXPECT_EQ(sockets.lost(), std::nullopt) << "it is the same one again";
    std::filesystem::remove(address().descriptor_path());
    EXPECT_EQ(sockets.lost(), address().descriptor_path() + " was removed");
    ASSERT_TRUE(listen_unix(address().descriptor_path(), 0600).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(address().path()));
  EXPECT_TRUE(std::filesystem::exists(address().descriptor_path())) << "somebody else's";
}

TEST_F(AddressFiles, ASecondOwnerLearnsWhoTheFirstIs) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  const auto first = lock();
  ASSERT_TRUE(first.has_value());
  const auto second = LockFile::take(address());
  ASSERT_TRUE(second.ok());
  const auto* holder = std::get_if<LockHolder>(&second.value());
  ASSERT_NE(holder, nullptr);
  EXPECT_EQ(holder->pid, ::getpid());
  EXPECT_EQ(holder->address, address().text());
}

TEST_F(AddressFiles, TheLockFileGoesWithItsOwner) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  { const auto first = lock(); }
  EXPECT_FALSE(std::filesystem::exists(address().lock_path()));
  EXPECT_TRUE(lock().has_value());
}

TEST_F(AddressFiles, TheLockFileIsItsOwnersAloneToOpenAlsoOneOfAnOlderVersion) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  std::ofstream(address().lock_path()) << "";
  ASSERT_EQ(::chmod(address().lock_path().c_str(), 0640), 0);
  const auto mine = lock();
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(mode_of(address().lock_path()), 0600u);
}

TEST_F(AddressFiles, WhereTheLockFileWasCleanedAwayTheSocketsTellThatTheServiceLives) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  const auto first = lock();
  ASSERT_TRUE(first.has_value());
  {
    const auto sockets = ListeningSockets::open(address());
    ASSERT_TRUE(sockets.ok());
    std::filesystem::remove(address().lock_path());
    const auto second = LockFile::take(address());
    ASSERT_TRUE(second.ok());
    const auto* holder = std::get_if<LockHolder>(&second.value());
    ASSERT_NE(holder, nullptr);
    EXPECT_EQ(holder->pid, ::getpid());
    EXPECT_EQ(holder->address, address().text());
    EXPECT_TRUE(std::filesystem::exists(address().path())) << "the sockets stay the first one's";
  }
  // Sockets that nobody listens at are left over.
  ASSERT_TRUE(listen_unix(address().descriptor_path(), 0600).ok());
  EXPECT_TRUE(lock().has_value());
}

TEST_F(AddressFiles, AnOwnerThatWasKilledLeavesTheLockToTheNext) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  int taken[2];
  ASSERT_EQ(::pipe(taken), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto mine = lock();
    if (::write(taken[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(taken[0], &byte, 1), 1);
  EXPECT_FALSE(lock().has_value());
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(address().lock_path()));
  EXPECT_TRUE(lock().has_value());
  ::close(taken[0]);
  ::close(taken[1]);
}

TEST_F(AddressFiles, ALockFileThatIsALinkIsNotFollowed) {
  ASSERT_TRUE(prepare_folder(folder()).ok());
  std::filesystem::create_symlink(folder() + "/elsewhere", address().lock_path());
  EXPECT_FALSE(LockFile::take(address()).ok());
  EXPECT_FALSE(std::filesystem::exists(folder() + "/elsewhere"));
}

}  // namespace
}  // namespace laneway::service

// PluginProcess: programs that do what they should not, as shell scripts in a folder of their own.
#include "plugin/plugin_process.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace laneway::plugin {
namespace {

// Long enough for any machine; nothing of it passes where the test holds.
constexpr Duration kDeadline = seconds(120);

class PluginProcessTest : public testing::Test {
 public:
  ~PluginProcessTest() override { std::filesystem::remove_all(folder_); }

 protected:
  PluginProcessTest() {
    std::string name = (std::filesystem::temp_directory_path() / "laneway-plugin-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  std::string program(const std::string& lines, const std::string& begin = "#!/bin/sh\n") {
    std::string file = (folder_ / "mine").string();
    std::ofstream(file) << begin << lines << "\n";
    EXPECT_EQ(::chmod(file.c_str(), 0700), 0);
    return file;
  }
  static std::string why_not(const std::string& file) {
    const auto process = PluginProcess::start(file);
    return process ? "" : process.error().message;
  }
  static PluginProcess run(const std::string& file) {
    auto process = PluginProcess::start(file);
    EXPECT_TRUE(process) << (process ? "" : process.error().message);
    return std::move(process).value();
  }
  // What it wrote, until it closed its end or `enough` is there.
  static std::string said(const PluginProcess& process, const std::string& enough = "") {
    std::string text;
    std::array<std::byte, 256> buffer;
    while (enough.empty() || text.find(enough) == std::string::npos) {
      EXPECT_TRUE(process.wait(/*to_write=*/false, kDeadline));
      const auto got = process.read(buffer);
      if (!got) break;
      text.append(reinterpret_cast<const char*>(buffer.data()), got.value());
    }
    return text;
  }

  std::filesystem::path folder_;
};

TEST_F(PluginProcessTest, AFileThatMayNotBeStartedIsNamedWithTheRemedy) {
  const std::string missing = (folder_ / "none").string();
  EXPECT_EQ(why_not(missing),
            "policy " + missing + " cannot be started: No such file or directory");
  EXPECT_NE(why_not(folder_.string()).find("is no file"), std::string::npos);
  const std::string file = program("exit 0");
  ::chmod(file.c_str(), 0600);
  if (::geteuid() != 0 || ::access(file.c_str(), X_OK) != 0) {
    EXPECT_EQ(why_not(file), "policy " + file + " is not executable: chmod +x " + file);
  }
  for (const mode_t mode : {0720u, 0702u}) {
    ::chmod(file.c_str(), mode);
    EXPECT_NE(why_not(file).find("may be changed by others than its owner"), std::string::npos);
  }
  ::chmod(file.c_str(), 0700);
  EXPECT_TRUE(check_program(file));
}

TEST_F(PluginProcessTest, AFileThatIsNoProgramIsRefused) {
  EXPECT_NE(why_not(program("rank = 1", "")).find("begin it with #!"), std::string::npos);
  EXPECT_NE(why_not(program("", "#!/no/such/python3\n")).find("behind its #! is not there"),
            std::string::npos);
}

TEST_F(PluginProcessTest, ItHasItsSocketAndNothingElseOpen) {
  const PluginProcess process = run(program(
      "for n in 4 5 6 7 8 9 11 12 13 14 15; do [ -e /proc/$$/fd/$n ] && echo open $n >&3; done\n"
      "read line; echo \"input '$line'\" >&3\n"
      "echo this is no frame\n"
      "echo end >&3"));
  EXPECT_EQ(said(process), "input ''\nend\n");
}

TEST_F(PluginProcessTest, WhatIsWrittenArrives) {
  const PluginProcess process = run(program("head -c 5 <&3 >&3"));
  std::vector<std::byte> bytes(5, std::byte{'x'});
  ASSERT_TRUE(process.write(bytes));
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(said(process), "xxxxx");
}

TEST_F(PluginProcessTest, HowItEndedIsSaid) {
  PluginProcess exits = run(program("exit 3"));
  EXPECT_EQ(said(exits), "");
  EXPECT_EQ(exits.end(kDeadline), "it ended with exit code 3");
  PluginProcess dies = run(program("kill -SEGV $$"));
  EXPECT_EQ(said(dies), "");
  EXPECT_EQ(dies.end(kDeadline), "signal 11 (Segmentation fault) ended it");
}

TEST_F(PluginProcessTest, OneThatIsStoppedEndsAllTheSame) {
  PluginProcess process = run(program("echo here >&3; kill -STOP $$"));
  EXPECT_EQ(said(process, "here"), "here\n");
  std::ifstream stat;
  std::string line;
  const std::string file = "/proc/" + std::to_string(process.pid()) + "/stat";
  do {
    stat = std::ifstream(file);
    std::getline(stat, line);
  } while (line.find(") T") == std::string::npos);
  EXPECT_EQ(process.end(Duration()), "it is stopped by a signal");
}

TEST_F(PluginProcessTest, OneThatClosesItsSocketAndRunsOnIsEnded) {
  PluginProcess process = run(program("exec 3>&-; exec sleep 100000"));
  EXPECT_EQ(said(process), "");
  EXPECT_EQ(process.end(milliseconds(1)), "");
}

TEST_F(PluginProcessTest, WhatItForkedEndsWithIt) {
  PluginProcess process = run(program("sleep 100000 & echo $! >&3; wait"));
  const std::string child = said(process, "\n");
  EXPECT_EQ(process.end(Duration()), "");
  const std::string file = "/proc/" + std::to_string(std::stol(child)) + "/stat";
  // Killed is not yet gone: whoever inherits it has to reap it.
  std::string line;
  do {
    line.clear();
    std::ifstream stat(file);
    std::getline(stat, line);
  } while (!line.empty() && line.find(") Z") == std::string::npos &&
           line.find(") X") == std::string::npos);
}

}  // namespace
}  // namespace laneway::plugin

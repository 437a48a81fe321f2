// Options of lanewayd: what each means, what the file of --config adds, and that a bad value is
// refused with its name and what to give instead.
#include "service/supervisor/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "service/supervisor/exit_codes.h"
#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Options read(std::vector<std::string> words) {
  words.insert(words.begin(), {"--address", "ipc:///a/b.sock"});
  auto parsed = parse_options(words);
  if (const auto* leave = std::get_if<Leave>(&parsed)) ADD_FAILURE() << leave->text;
  return std::get<Options>(parsed);
}

Leave refused(const std::vector<std::string>& words) {
  auto parsed = parse_options(words);
  if (std::holds_alternative<Leave>(parsed)) return std::get<Leave>(parsed);
  ADD_FAILURE() << "not refused: " << ::testing::PrintToString(words);
  return {};
}

TEST(Options, Defaults) {
  const Options options = read({});
  EXPECT_EQ(options.address.text(), "ipc:///a/b.sock");
  EXPECT_EQ(options.device, "host");
  EXPECT_EQ(options.pool, Bytes(0));
  EXPECT_EQ(options.policy, "fifo");
  EXPECT_EQ(options.standby, 1u);
  EXPECT_EQ(options.lanes, 0u);
  EXPECT_EQ(options.max_threads, 0u);
  EXPECT_FALSE(options.graph_memory.has_value());
  EXPECT_EQ(options.reserve, Bytes(0));
  EXPECT_EQ(options.copy_bandwidth_per_s, 0);
  EXPECT_EQ(options.log_level, LogLevel::info);
  EXPECT_TRUE(options.log_file.empty());
  EXPECT_TRUE(options.trace.empty());
}

TEST(Options, EveryOptionIsRead) {
  const Options options = read(
      {"--device",  "host",       "--pool",    "1.5GiB",           "--policy",  "srtf",
       "--standby", "0",          "--lanes=3", "--max-threads",    "16",        "--graph-memory",
       "2GiB",      "--reserve",  "64 MiB",    "--copy-bandwidth", "2GiB",      "--log-level",
       "debug",     "--log-file", "a.log",     "--trace",          "/t/a.trace"});
  EXPECT_EQ(options.pool, mib(1536));
  EXPECT_EQ(options.policy, "srtf");
  EXPECT_EQ(options.standby, 0u);
  EXPECT_EQ(options.lanes, 3u);
  EXPECT_EQ(options.max_threads, 16u);
  EXPECT_EQ(options.graph_memory, gib(2));
  EXPECT_EQ(options.reserve, mib(64));
  EXPECT_EQ(options.copy_bandwidth_per_s, int64_t{2} << 30);
  EXPECT_EQ(options.log_level, LogLevel::debug);
  EXPECT_EQ(options.log_file, "a.log");
  EXPECT_EQ(options.trace, "/t/a.trace");
}

TEST(Options, ADeviceIsNamedAndAWorkerSaysWhetherItIsThere) {
  const Options options = read({"--device", "cuda:12", "--lane-sms", "16"});
  EXPECT_EQ(options.device, "cuda:12");
  EXPECT_EQ(options.lane_sms, 16u);
}

TEST(Options, TheWorkerIsNamedByTheEnvironmentAndTheCommandLineWins) {
  EXPECT_EQ(read({}).worker, "");
  ::setenv("LANEWAY_WORKER", "/lib/torch-2.11/laneway-worker", 1);
  EXPECT_EQ(read({}).worker, "/lib/torch-2.11/laneway-worker");
  EXPECT_EQ(read({"--worker", "/mine"}).worker, "/mine");
  ::unsetenv("LANEWAY_WORKER");
}

TEST(Options, TheFileOfConfigIsReadAndTheCommandLineWins) {
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/lanewayd.toml";
  std::ofstream(path) << "# a service\npool = \"512MiB\"\nlanes = 2\npolicy = \"srtf\"\n";
  const Options options = read({"--config", path, "--lanes", "5"});
  EXPECT_EQ(options.pool, mib(512));
  EXPECT_EQ(options.policy, "srtf");
  EXPECT_EQ(options.lanes, 5u);
}

TEST(Options, AFileOfConfigThatSaysSomethingUnknownIsRefused) {
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/lanewayd.toml";
  std::ofstream(path) << "pol = \"512MiB\"\n";
  EXPECT_EQ(refused({"--config", path}).code, kExitUsage);
  EXPECT_THAT(refused({"--config", path}).text, HasSubstr("pol"));
  EXPECT_EQ(refused({"--config", path + ".none"}).code, kExitUsage);
}

TEST(Options, WhatIsWrongInAFileOfConfigIsSaidWithFileAndLine) {
  struct Case {
    std::string text;
    int line;
    std::string said;
  };
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/lanewayd.toml";
  for (const Case& one : {
           Case{"pool = \"512MiB\"\n\n# half\npol = 3\n", 4, "there is no option 'pol'"},
           Case{"pool = \"512MiB\"\nlanes = 0\n", 2, "--lanes 0: give a whole number from 1 to 64"},
           Case{"lane-sms = 5\nlanes=3\n", 1, "--lane-sms 5: the host has no multiprocessors"},
           Case{"\n  pool = \"much\"  \n", 2, "--pool much"},
           Case{"pool 512MiB\n", 1, "there is no option 'pool 512MiB'"},
           Case{"lanes = 3\n[quota]\nann = 3\n", 2, "[quota]: the file has no sections"},
           Case{"policy = \"none\"\n", 1, "--policy none"},
           Case{"spill = \"/var/tmp\"\n", 1, "--spill /var/tmp: give FOLDER:SIZE"},
           Case{"pool = \"64MiB\"\npool = \"65MiB\"\n", 2, "--pool"},
       }) {
    std::ofstream(path) << one.text;
    const Leave leave = refused({"--config", path});
    EXPECT_EQ(leave.code, kExitUsage);
    EXPECT_THAT(leave.text,
                StartsWith("lanewayd: " + path + ":" + std::to_string(one.line) + ": "));
    EXPECT_THAT(leave.text, HasSubstr(one.said));
  }
}

TEST(Options, WhatIsWrongOnTheCommandLineHasNoPlaceInAFile) {
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/lanewayd.toml";
  std::ofstream(path) << "lanes = 2\n";
  for (const auto& words : {std::vector<std::string>{"--lanes", "0"}, {"--lanes=0"}}) {
    std::vector<std::string> all{"--config", path};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_THAT(refused(all).text, StartsWith("lanewayd: --lanes 0"));
  }
}

TEST(Options, HelpAndVersionEndWell) {
  const Leave help = refused({"--help"});
  EXPECT_EQ(help.code, kExitDone);
  for (const char* option :
       {"--device", "--pool", "--address", "--policy", "--standby", "--lanes", "--lane-sms",
        "--max-threads", "--graph-memory", "--reserve", "--copy-bandwidth", "--config",
        "--log-level", "--log-file", "--trace", "--version"}) {
    EXPECT_THAT(help.text, HasSubstr(option));
  }
  EXPECT_EQ(refused({"--version"}).code, kExitDone);
  EXPECT_THAT(refused({"--version"}).text, HasSubstr("lanewayd "));
}

struct BadValue {
  std::vector<std::string> words;
  std::vector<std::string> said;
};

TEST(Options, BadValuesAreRefusedByNameWithTheLimitAndARemedy) {
  const std::vector<BadValue> cases = {
      {{"--pool", "much"}, {"--pool", "'much'", "512MiB"}},
      {{"--pool", "10"}, {"--pool", "10", "1 MiB"}},
      {{"--reserve", "-1"}, {"--reserve", "'-1'"}},
      {{"--pool", "64MiB", "--reserve", "64MiB"}, {"--reserve", "64 MiB", "reserve less"}},
      {{"--standby", "9"}, {"--standby 9", "from 0 to 8"}},
      {{"--standby", "1.5"}, {"--standby 1.5", "whole number"}},
      {{"--lanes", "0"}, {"--lanes 0", "from 1 to 64"}},
      {{"--max-threads", "0"}, {"--max-threads 0", "from 1 to 1024"}},
      {{"--graph-memory", "some"}, {"--graph-memory", "'some'"}},
      {{"--policy", "nonsense"}, {"--policy nonsense", "fifo"}},
      {{"--device", "tpu"}, {"--device tpu", "'host'"}},
      {{"--device", "cuda:"}, {"--device cuda:", "'cuda:N'"}},
      {{"--device", "cuda:0x"}, {"--device cuda:0x", "'cuda:N'"}},
      {{"--lane-sms", "8"}, {"--lane-sms 8", "the host has no multiprocessors", "cuda:N"}},
      {{"--device", "cuda:0", "--lane-sms", "5000"}, {"--lane-sms 5000", "1024"}},
      {{"--device", "cuda:0", "--copy-bandwidth", "1GiB"},
       {"--copy-bandwidth 1GiB", "leave it out"}},
      {{"--address", "tcp://host:1"}, {"--address", "tcp://host:1", "ipc://PATH"}},
      {{"--log-level", "loud"}, {"--log-level loud", "warning"}},
      {{"--unknown"}, {"--unknown"}},
      {{"word"}, {"word"}},
  };
  for (const BadValue& one : cases) {
    const Leave leave = refused(one.words);
    EXPECT_EQ(leave.code, kExitUsage) << leave.text;
    EXPECT_THAT(leave.text, ::testing::StartsWith("lanewayd: "));
    for (const std::string& said : one.said) EXPECT_THAT(leave.text, HasSubstr(said));
  }
}

}  // namespace
}  // namespace laneway::service

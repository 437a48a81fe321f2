#include "tests/service/supervisor/stage.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/check.h"
#include "service/transport/channel.h"
#include "service/transport/unix_socket.h"

namespace laneway::testing {
namespace {

constexpr int kPatienceMs = 60'000;

void wait_for(int descriptor, const std::string& what) {
  pollfd entry{descriptor, POLLIN, 0};
  if (::poll(&entry, 1, kPatienceMs) != 1) throw std::runtime_error("waited in vain for " + what);
}

// Starts a program whose standard output and error go to these.
pid_t start_program(const std::string& program, const std::vector<std::string>& words, int output,
                    int error) {
  std::vector<std::string> all = {program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    ::execv(program.c_str(), pointers.data());
    ::_exit(127);
  }
  LW_CHECK(pid > 0, "no process");
  return pid;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

Watched::Watched(pid_t pid)
    : pid_(pid), descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

void Watched::kill(int signal) const {
  ::syscall(SYS_pidfd_send_signal, descriptor_.get(), signal, nullptr, 0);
}

bool Watched::is_gone() const {
  pollfd entry{descriptor_.get(), POLLIN, 0};
  return !descriptor_.valid() || ::poll(&entry, 1, 0) == 1;
}

void Watched::wait_until_gone() const {
  if (descriptor_.valid()) wait_for(descriptor_.get(), "the end of " + std::to_string(pid_));
}

void Watched::wait_until_stopped() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/stat";
  for (int looks = 0; looks < 100'000; ++looks) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    if (line.find(") T ") != std::string::npos) return;
    ::sched_yield();
  }
  throw std::runtime_error(std::to_string(pid_) + " does not stop");
}

std::string Actor::read_line() {
  while (true) {
    const size_t end = unfinished_.find('\n');
    if (end != std::string::npos) {
      const std::string line = unfinished_.substr(0, end);
      unfinished_.erase(0, end + 1);
      return line;
    }
    wait_for(control_.get(), "a line of " + pid_text());
    std::array<char, 4096> text{};
    const ssize_t size = ::read(control_.get(), text.data(), text.size());
    if (size <= 0) throw std::runtime_error(pid_text() + " ended; nothing more comes of it");
    unfinished_.append(text.data(), static_cast<size_t>(size));
  }
}

std::string Actor::next() {
  if (lines_.empty()) return read_line();
  const std::string line = lines_.front();
  lines_.pop_front();
  return line;
}

std::string Actor::expect(const std::string& start) {
  std::string seen;
  try {
    while (true) {
      const std::string line = next();
      if (line.starts_with(start)) return line;
      seen += "\n  " + line;
    }
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("no line '" + start + "' (" + error.what() + "); before:" + seen);
  }
}

void Actor::tell(const std::string& line) {
  const std::string text = line + "\n";
  if (::send(control_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
    throw std::runtime_error(pid_text() + " is gone and cannot be told '" + line + "'");
  }
}

void Actor::say(const std::string& line) {
  tell(line);
  for (std::string heard = read_line(); heard != "done " + line; heard = read_line()) {
    lines_.push_back(heard);
  }
}

void Actor::leave(int code) {
  say("exit " + std::to_string(code));
  process_.wait_until_gone();
}

Stage::Stage() {
  const std::string path = folder_.path() + "/control";
  control_ = service::listen_unix(path, 0600).value();
  ::setenv("LANEWAY_TEST_CONTROL", path.c_str(), 1);
  std::filesystem::create_directory(programs());
  for (const char* name : {"/laneway-broker", "/laneway-worker"}) {
    std::filesystem::create_symlink(std::string(LANEWAY_PUPPETS) + name, programs() + name);
  }
}

Stage::~Stage() {
  if (!daemon_) return;
  daemon_->kill(SIGKILL);  // its children die with it
  ::waitpid(daemon_->pid(), nullptr, 0);
}

void Stage::start_as(std::vector<std::string> before, const std::vector<std::string>& words) {
  std::array<int, 2> output{};
  LW_CHECK(::pipe2(output.data(), O_CLOEXEC) == 0, "no pipe");
  printed_ = service::Descriptor(output[0]);
  const service::Descriptor writer(output[1]);
  const std::string log_path = folder_.path() + "/log";
  const service::Descriptor log_file(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  before.emplace_back(LANEWAYD);
  const std::string program = before.front();
  std::vector<std::string> all(before.begin() + 1, before.end());
  for (const std::string& word : {std::string("--address"), address(), std::string("--programs"),
                                  programs(), std::string("--pool"), std::string("16MiB")}) {
    all.push_back(word);
  }
  all.insert(all.end(), words.begin(), words.end());
  daemon_.emplace(start_program(program, all, writer.get(), log_file.get()));
}

Actor Stage::actor(const std::string& name) {
  for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
    if (one->first != name) continue;
    Actor found = std::move(one->second);
    waiting_.erase(one);
    return found;
  }
  while (true) {
    wait_for(control_.get(), "a " + name + "; lanewayd said:\n" + log());
    auto connection = service::accept_unix(control_);
    if (!connection || !connection.value()) continue;
    ucred peer{};
    socklen_t size = sizeof(peer);
    ::getsockopt(connection.value()->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
    Actor actor(std::move(*connection.value()), peer.pid);
    const std::string its_name = actor.next();
    if (its_name == name) return actor;
    waiting_.emplace_back(its_name, std::move(actor));
  }
}

Actor Stage::serving_broker() {
  Actor actor = broker();
  actor.expect("held end");
  actor.say("heartbeat");
  return actor;
}

Actor Stage::ready_worker() {
  Actor actor = worker();
  actor.expect("start");
  actor.say("ready");
  return actor;
}

std::string Stage::printed_line() {
  std::string line;
  char letter = 0;
  while (letter != '\n') {
    wait_for(printed_.get(), "a line of lanewayd; it logged:\n" + log());
    if (::read(printed_.get(), &letter, 1) != 1) throw std::runtime_error("it ended:\n" + log());
    line += letter;
  }
  return line;
}

int Stage::exit_code() {
  daemon_->wait_until_gone();
  const int code = wait_for_exit(daemon_->pid());
  daemon_.reset();
  return code;
}

void Stage::wait_for_log(const std::string& text) const {
  constexpr int kLookMs = 10;
  for (int looks = 0; looks < kPatienceMs / kLookMs; ++looks) {
    if (log().find(text) != std::string::npos) return;
    ::poll(nullptr, 0, kLookMs);
  }
  throw std::runtime_error("waited in vain for '" + text + "'; lanewayd logged:\n" + log());
}

std::string Stage::log() const { return read_file(folder_.path() + "/log"); }

std::vector<std::string> Stage::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/here")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::pair<int, std::string> Stage::run(const std::vector<std::string>& words) const {
  const std::string path = folder_.path() + "/other-log";
  const service::Descriptor log_file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const Watched other(start_program(LANEWAYD, words, log_file.get(), log_file.get()));
  try {
    other.wait_until_gone();
  } catch (const std::runtime_error&) {
    other.kill(SIGKILL);
    wait_for_exit(other.pid());
    throw;
  }
  return {wait_for_exit(other.pid()), read_file(path)};
}

}  // namespace laneway::testing

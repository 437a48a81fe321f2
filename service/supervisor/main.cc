// lanewayd: reads what it was asked for, takes the address, makes pool and journal, and runs the
// supervisor.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/version.h"
#include "service/journal/journal_layout.h"
#include "service/supervisor/exit_codes.h"
#include "service/supervisor/lock_file.h"
#include "service/supervisor/machine_memory.h"
#include "service/supervisor/notify.h"
#include "service/supervisor/options.h"
#include "service/supervisor/pool_maker.h"
#include "service/supervisor/supervisor.h"
#include "service/trace/trace_file.h"

namespace laneway::service {
namespace {

int complain(int code, const std::string& what) {
  std::fprintf(stderr, "lanewayd: %s\n", what.c_str());
  return code;
}

// Every job of every client has descriptors here, in the broker and in the worker, which inherit
// the limit: as many as the system lets this process have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    log_warning("the limit of open files stays as it is");
}

// Where the other programs are: beside this one, links followed.
std::string programs_of(const Options& options) {
  if (!options.programs.empty()) return options.programs;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string worker_of(const Options& options) {
  return options.worker.empty() ? programs_of(options) + "/laneway-worker" : options.worker;
}

// 0, or the errno of what an attempt to start the program would meet.
int why_not_started(const std::string& program) {
  if (::access(program.c_str(), X_OK) != 0) return errno;
  std::error_code ignored;
  return std::filesystem::is_directory(program, ignored) ? EISDIR : 0;
}

// As far as it is known before there is a pool.
wire::ServiceConfig config_of(const Options& options) {
  wire::ServiceConfig config;
  config.address = options.address.text();
  config.device = options.device;
  config.policy = options.policy;
  config.pool_bytes = static_cast<uint64_t>(options.pool.count());
  config.reserve_bytes = static_cast<uint64_t>(options.reserve.count());
  config.recovery = options.recovery;
  config.prefix = options.prefix;
  config.lanes = options.lanes;
  config.lane_sms = options.lane_sms;
  config.copy_bandwidth_per_s = options.copy_bandwidth_per_s;
  config.trace_file = options.trace;
  config.log_level = log_level_name(options.log_level);
  config.log_file = options.log_file;
  return config;
}

Result<MadePool> pool_of_device(const Options& options) {
  auto pool = make_device_pool(worker_of(options), config_of(options),
                               SupervisorTimes::scaled(options.time_scale).worker_start);
  if (!pool) {
    return Error{pool.error().code, "--device " + options.device + ": " + pool.error().message};
  }
  if (options.reserve >= pool.value().size) {
    return Error{ErrorCode::invalid_argument, "--reserve " + format_bytes(options.reserve) +
                                                  ": nothing would be left of the pool of " +
                                                  format_bytes(pool.value().size) + " on " +
                                                  options.device + ": reserve less"};
  }
  return pool;
}

// What was asked for cannot be had: as other options that make no sense.
int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::out_of_memory: return kExitUsage;
    default: return kExitFailed;
  }
}

int already_running(const LockHolder& holder) {
  const std::string who = holder.pid > 0
                              ? "pid " + std::to_string(holder.pid) + " at " + holder.address
                              : "it is just starting, or in a container of its own";
  return complain(kExitAlreadyRunning,
                  "already running: " + who +
                      ". Use that one, end it with `laneway shutdown`, or give another --address");
}

// What of the machine's memory is for what.
struct Shares {
  Bytes recovery;
  Bytes store;
  Bytes graphs;  // in each worker
};

// A standby resolves the graphs of all jobs too.
Bytes graphs_of(const Options& options, const MachineMemory& memory) {
  const Bytes all = options.graph_memory.value_or(Bytes(memory.total.count() / 4));
  return Bytes(all.count() / (1 + int64_t{options.standby}));
}

// As many as a capture of a process on this machine has, unless it asked for more.
uint32_t threads_of(const Options& options) {
  if (options.max_threads > 0) return options.max_threads;
  return static_cast<uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

// With the lock held: the service, until its end.
int serve(const Options& options, MadePool pool, const Shares& shares,
          std::optional<memory::SpillFile> spill, ListeningSockets sockets) {
  auto journal =
      memory::SharedMemory::create("laneway-journal", Bytes(static_cast<int64_t>(kJournalBytes)));
  if (!journal) return complain(kExitFailed, journal.error().message);
  std::optional<memory::SharedMemory> recovery_memory;
  std::optional<memory::SharedMemory> store;
  for (const auto& [name, size, into] :
       {std::tuple("laneway-recovery", shares.recovery, &recovery_memory),
        std::tuple("laneway-store", shares.store, &store)}) {
    if (size == Bytes()) continue;
    auto made = memory::SharedMemory::create(name, size);
    if (!made) return complain(kExitFailed, made.error().message);
    *into = std::move(made).value();
  }
  auto signals = SignalQueue::open();
  if (!signals) return complain(kExitFailed, signals.error().message);
  const SteadyClock clock;
  wire::ServiceConfig config = config_of(options);
  config.pool_bytes = static_cast<uint64_t>(pool.size.count());
  config.recovery_bytes = static_cast<uint64_t>(shares.recovery.count());
  config.store_bytes = static_cast<uint64_t>(shares.store.count());
  config.max_threads = threads_of(options);
  config.graph_bytes = static_cast<uint64_t>(shares.graphs.count());
  config.spill_bytes = static_cast<uint64_t>(options.spill.count());
  config.alignment = pool.alignment;
  config.kernels = pool.kernels;
  config.pool_is_shared = pool.descriptor.valid();
  const SupervisorSetup setup{
      .config = std::move(config),
      .programs = programs_of(options),
      .worker = worker_of(options),
      .standby = options.standby,
      .standbys_prepare = !options.unprepared_standby,
      .vmstat = options.vmstat,
      .pid = ::getpid(),
      .started_unix_ns =
          std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(),
      .times = SupervisorTimes::scaled(options.time_scale),
      .sockets = std::move(sockets),
      .pool = std::move(pool.descriptor),
      .journal = std::move(journal).value(),
      .recovery = std::move(recovery_memory),
      .store = std::move(store),
      .spill = std::move(spill)};
  Supervisor supervisor(setup, signals.value(), clock);
  const int code = supervisor.run([&] {
    std::printf("lanewayd ready: %s pool %s pid %d\n", setup.config.address.c_str(),
                format_bytes(pool.size).c_str(), setup.pid);
    std::fflush(stdout);
    notify_service_manager("READY=1");
  });
  return code;
}

int run(const Options& options) {
  if (!options.log_file.empty()) {
    if (const Status status = set_log_file(options.log_file); !status) {
      return complain(kExitUsage, "--log-file: " + status.error().message);
    }
  }
  set_log_level(options.log_level);
  const std::string worker = worker_of(options);
  if (const int error = why_not_started(worker); error != 0) {
    return complain(kExitUsage, "--worker " + worker + ": " + std::strerror(error) +
                                    ": give the laneway-worker for the torch that is installed, "
                                    "as the command lanewayd of the Python package does");
  }
  const auto memory = MachineMemory::read();
  if (!memory) return complain(kExitFailed, memory.error().message);
  Bytes host_pool;
  if (options.device == "host") {
    const auto chosen = choose_pool(options.pool, options.reserve, memory.value());
    if (!chosen) return complain(kExitUsage, chosen.error().message);
    host_pool = chosen.value();
  }
  raise_descriptor_limit();
  if (const Status status = prepare_folder(options.address.directory()); !status) {
    return complain(kExitFailed, status.error().message);
  }
  auto lock = LockFile::take(options.address);
  if (!lock) return complain(kExitFailed, lock.error().message);
  if (const auto* holder = std::get_if<LockHolder>(&lock.value())) return already_running(*holder);
  auto sockets = ListeningSockets::open(options.address);
  if (!sockets) return complain(kExitFailed, sockets.error().message);
  Descriptor trace;  // kept open: nobody else may begin it
  if (!options.trace.empty()) {
    auto begun = begin_trace_file(options.trace, SteadyClock());
    if (!begun) return complain(kExitUsage, "--trace: " + begun.error().message);
    trace = std::move(begun).value();
  }
  log_info(std::string("lanewayd ") + version() + " at " + options.address.text());
  auto pool = options.device == "host" ? make_host_pool(host_pool) : pool_of_device(options);
  if (!pool) return complain(exit_code_of(pool.error()), pool.error().message);
  const auto recovery =
      choose_recovery(options.recovery_memory, pool.value().size, host_pool, memory.value());
  if (!recovery) return complain(kExitUsage, recovery.error().message);
  if (recovery.value() == Bytes())
    log_info(
        "there is no recovery memory: a worker that dies "
        "while it writes a job's state costs that job");
  const auto store =
      choose_store(options.store, pool.value().size, host_pool + recovery.value(), memory.value());
  if (!store) return complain(kExitUsage, store.error().message);
  std::optional<memory::SpillFile> spill;
  if (options.spill > Bytes()) {
    auto made = memory::SpillFile::create(options.spill_folder, options.spill);
    if (!made) return complain(kExitUsage, "--spill: " + made.error().message);
    spill.emplace(std::move(made).value());
  }
  return serve(options, std::move(pool).value(),
               {.recovery = recovery.value(),
                .store = store.value(),
                .graphs = graphs_of(options, memory.value())},
               std::move(spill), std::move(sockets).value());
}

// Makes descriptors 0, 1 and 2 /dev/null where whoever started the program has closed them. A file
// or a socket would get such a number otherwise, and lines that are printed would go into it.
bool open_standard_descriptors() {
  int descriptor = ::open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR);
  return descriptor >= 0 && ::close(descriptor) == 0;
}

}  // namespace
}  // namespace laneway::service

int main(int count, char** words) {
  if (!laneway::service::open_standard_descriptors()) return laneway::service::kExitFailed;
  // A write beyond the limit on the size of files fails and is told of, here and in all children.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto parsed =
      laneway::service::parse_options(std::vector<std::string>(words + 1, words + count));
  if (const auto* leave = std::get_if<laneway::service::Leave>(&parsed)) {
    std::fputs(leave->text.c_str(), leave->code == 0 ? stdout : stderr);
    return leave->code;
  }
  return laneway::service::run(std::get<laneway::service::Options>(parsed));
}

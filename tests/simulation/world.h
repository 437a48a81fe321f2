// World: virtual time around the real scheduler. It plays the clients (seeded random jobs that
// arrive, submit, think, grow, are killed), the worker (carries turns out at the pace of a drawn
// iteration time, reports late, is lost and replaced) and the operator (changes the capacity, which
// the service cannot do yet). The scheduler's events and actions pass the checkers on their way.
// Faults stop at a drawn time; from then on every job that was admitted must get to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "lanes/core/scheduler.h"
#include "lanes/state/changes.h"
#include "tests/simulation/action_hash.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/observed.h"
#include "tests/simulation/order_checker.h"

namespace laneway::simulation {

struct Outcome {
  uint64_t action_hash = 0;
  std::string violation;  // empty: every rule held
  // What happened, so that a test can see that its seeds reach what they are meant to reach.
  std::map<std::string, uint64_t> counts;
};

// What worlds are like. Exchange: images of up to three fifths of the pool, hardly room for one of
// them outside, and models that serve end only when all of them were answered: whoever waits for
// another one's end waits for ever.
enum class Kind : uint8_t { any, exchange };

class World {
 public:
  // `lost`: changes of this kind are not noted by the core, whose rules must break then.
  explicit World(uint64_t seed, Kind kind = Kind::any, std::optional<lanes::Changed> lost = {});
  ~World();
  Outcome run();

 private:
  struct Client;       // one job and who submits for it
  struct RunningTurn;  // the worker's side of an open turn

  void at(Duration from_now, std::function<void()> what);
  // What is sent within one instant is handled together, when it is over; or before, where what
  // follows from it is needed, or nothing may come with it.
  void send(const lanes::Event& event);
  void handle_sent();
  std::vector<lanes::Action> look_again();
  void handle(const std::vector<lanes::Event>& events);
  void carry_out(const lanes::Action& action);
  void broken(const std::string& what);
  bool step();  // false: nothing is left to happen

  // Clients.
  void plan_clients();
  void plan_exchange();
  void end_served();
  void choose_options(JobOptions& options);
  void arrive(uint64_t number);
  void submit(Client& client);
  void refuse_work(Client& client, bool all);
  void completed(Client& client);
  void gone(Client& client);
  // Worker.
  void granted(const lanes::Turn& turn);
  void start_iteration(RunningTurn& turn);
  void finish_iteration(TurnId id, Duration took);
  void at_boundary(RunningTurn& turn);
  void recalled(const lanes::RecallTurn& asked);
  void end_turn(TurnId id, lanes::TurnEnd end);
  static void account(Client& client, const RunningTurn& turn);
  // Iterations that hold up others (world_preemption.cc).
  void learn_urgency(const lanes::Turn& turn);
  Duration slowed(Duration time) const {
    return Duration(static_cast<int64_t>(static_cast<double>(time.ns()) * slows_by_));
  }
  void run_on(RunningTurn& turn);
  bool must_pause(const RunningTurn& turn);
  void settle_pauses();
  void pause(RunningTurn& turn);
  void resume(RunningTurn& turn);
  void say(const lanes::Event& event);
  void abandon_if_long(RunningTurn& turn, Duration latest);
  void place(const lanes::PlaceImage& action);
  void move(JobId job);
  void evict(const lanes::EvictImage& action);
  void leave(const lanes::EvictImage& action);
  void wish_for_prefix(JobId job);
  void save(const lanes::SaveImage& action);
  void arrived(JobId job, uint64_t epoch);
  void stop_saving(JobId job);
  void touch_image(JobId job);
  // Operator and faults.
  void plan_faults();
  void one_fault();
  void nonsense();
  void lose_worker();
  void forget_plans();
  void blame_somebody();
  void release(JobId job);
  void wish(JobId job);
  void unpin(JobId job);
  void resize(Bytes capacity);
  void change(JobId job);
  void faults_are_over();
  // Policies (world_policy.cc).
  Order draw_order();
  std::string draw_policy();
  std::unique_ptr<policies::Policy> make_policy() const;
  void make_core();
  void change_policy();
  // From now on the bound on waiting of `policy_` is held.
  void watch_waits();
  // The adviser of a policy from outside (world_adviser.cc).
  bool is_advised() const;
  void start_adviser();
  void lose_adviser();
  void tell(const lanes::TellPolicy& news);
  lanes::Advice draw_advice(const lanes::JobFacts& facts);
  // Another broker, or another worker (world_restart.cc).
  lanes::WorkerReport report() const;
  void restart_core();
  void check_iterations(JobId job);
  // Nothing is left to happen: right only if nobody is left. True: somebody is.
  bool standstill();
  Client* any_client();
  int64_t need_of(const Client& client) const;
  // Of a message. The core may be one that looks at its messages now and then: then several come at
  // once.
  Duration delay();

  struct Happening {
    TimePoint time;
    uint64_t number = 0;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Happening& a, const Happening& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  Random random_;
  TimePoint now_;
  uint64_t happenings_ = 0;
  std::priority_queue<Happening, std::vector<Happening>, Later> queue_;

  int64_t capacity_ = 0;
  int64_t max_delay_us_ = 0;
  Duration reads_every_;                  // zero: as soon as there is a message
  std::vector<lanes::Event> sent_;        // at this instant, and not handled yet
  bool worker_keeps_idle_turns_ = false;  // even bounded ones: the core's timer must help
  bool faults_ = false;
  TimePoint faults_end_;
  uint64_t worker_epoch_ = 0;
  uint64_t adviser_epoch_ = 0;
  uint64_t broker_epoch_ = 0;  // what was said to the one before is lost
  TurnId last_turn_;
  RegionId last_region_;
  uint64_t seed_;
  bool looks_again_ = false;
  Kind kind_;
  std::optional<lanes::Changed> lost_;
  lanes::SchedulerConfig config_;
  bool one_context_ = false;
  std::string policy_;        // "nonsense", or as the registry reads it
  bool keeps_apart_ = false;  // whether it may let lanes wait for each other
  double slows_by_ = 1;       // so much longer iterations take beside others
  Duration age_;              // its age_s; zero: it has no bound on waiting
  std::unique_ptr<lanes::Scheduler> scheduler_;
  std::unique_ptr<Observed> seen_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::unique_ptr<Checker> waiting_;  // one more; null: there is no bound
  std::map<JobId, Client> clients_;
  std::map<TurnId, RunningTurn> turns_;
  std::map<LaneId, lanes::LaneSet> yields_to_;
  // What lies outside of the pool: whose image, in which version.
  std::map<std::pair<lanes::Tier, int64_t>, std::pair<JobId, uint64_t>> outside_;
  uint64_t next_session_ = 0;
  Outcome outcome_;
  ActionHash hash_;
};

}  // namespace laneway::simulation

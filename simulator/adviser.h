// Adviser: the program of a policy (plugin/), in lockstep with a simulation: what it says of an
// instant is waited for, so that results do not depend on how fast it is. Move-only; not
// thread-safe; used by the thread that started it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "plugin/conversation.h"
#include "plugin/plugin_process.h"
#include "policies/registry.h"

namespace laneway::simulator {

class Adviser {
 public:
  // Starts the program and hears its hello. Errors name the file, what is wrong and what to do.
  static Result<Adviser> start(const policies::PluginText& text, uint64_t seed, Duration patience);

  // Tells it what the core wants told, and adds what it says to `events`. It has `patience` for
  // that. Errors as start().
  Status advise(TimePoint now, std::span<const lanes::Action> actions,
                std::vector<lanes::Event>& events);
  // When it wants to be told of all jobs again; that is forgotten by then.
  TimePoint wakes_at() const { return conversation_.wakes_at(); }
  void forget_wake() { conversation_.forget_wake(); }

 private:
  Adviser(std::string file, Duration patience, plugin::PluginProcess process,
          plugin::Conversation conversation)
      : file_(std::move(file)),
        patience_(patience),
        process_(std::move(process)),
        conversation_(std::move(conversation)) {}

  // Until it has answered, for so long at most; when it does not it is ended.
  Status listen(Duration patience);
  Status exchange(Duration patience);
  // Ends the program.
  Error failure(const Error& why);

  std::string file_;
  Duration patience_;
  plugin::PluginProcess process_;
  plugin::Conversation conversation_;
};

}  // namespace laneway::simulator

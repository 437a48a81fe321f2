// PolicyLink: one process of a policy from outside the tree, as whoever runs the core sees it: the
// socket to it, what is said over it (plugin/conversation.h), and when it is late. Never waits for
// it: what it has not read yet stays here, at most one batch. Takes the time as an argument; not
// thread-safe.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "plugin/conversation.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class PolicyLink {
 public:
  // Why the process is of no more use.
  struct Fault {
    std::string why;
    bool hung_up = false;  // it closed its socket; it may be ending by itself
  };
  // How long it may take.
  struct Patience {
    Duration start;   // until its hello, with what it loads
    Duration answer;  // to whatever it was told
  };
  static const Patience kPatience;

  // `options`: for the program (plugin_of in policies/registry.h).
  PolicyLink(Descriptor socket, const std::string& options, TimePoint now,
             const Patience& patience = kPatience);

  // To be told with the next batch. `user`: whose job it is.
  void tell(const lanes::TellPolicy& news, const std::string& user) {
    conversation_.tell(news, user);
  }
  // Reads what came. The events are for the core; what it wants told because of them is to be told
  // before say(). After a fault both do nothing.
  std::vector<lanes::Event> hear(TimePoint now);
  // Begins a batch if something is to be told and the batch before was answered, writes as much as
  // the socket takes, and looks whether the process is late.
  void say(TimePoint now);

  // It said hello.
  bool has_begun() const { return conversation_.has_begun(); }
  const std::optional<Fault>& fault() const { return fault_; }

  // What it waits for; nothing after a fault.
  std::optional<pollfd> poll_entry() const;
  // When hear() or say() has something to do though nothing came.
  TimePoint next_wakeup() const;

 private:
  void read();
  void write();
  void look_whether_late(TimePoint now);
  void hang_up() { fault_ = Fault{.why = "it closed its descriptor 3, or ended", .hung_up = true}; }
  Duration patience() const { return has_begun() ? patience_.answer : patience_.start; }

  const Patience patience_;
  Descriptor socket_;
  plugin::Conversation conversation_;
  TimePoint asked_since_;   // it owes an answer since then, if it does
  bool is_asked_ = true;    // as of the last look
  bool announced_ = false;  // the core knows that it is there
  bool wants_write_ = true;
  std::optional<Fault> fault_;
};

}  // namespace laneway::service

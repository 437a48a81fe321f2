// Every message of the service as a list of types, with the family that it is decoded as.
#pragma once

#include <utility>
#include <variant>

#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"
#include "service/wire/held_counters.h"
#include "service/wire/held_jobs.h"
#include "service/wire/held_session.h"
#include "service/wire/standby_messages.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::testing {

template <class Family>
struct FamilyOf {};

// Calls visit.operator()<Message, Family>() for every message of every family.
template <class Visit>
void for_each_message(const Visit& visit) {
  const auto family = [&]<class... M>(FamilyOf<std::variant<M...>>) {
    (visit.template operator()<M, std::variant<M...>>(), ...);
  };
  family(FamilyOf<wire::AnyRequest>());
  family(FamilyOf<wire::AnyReply>());
  family(FamilyOf<wire::AnyLifeline>());
  family(FamilyOf<wire::to_worker::Any>());
  family(FamilyOf<wire::from_worker::Any>());
  family(FamilyOf<wire::to_standby::Any>());
  family(FamilyOf<wire::from_standby::Any>());
  family(FamilyOf<wire::supervisor_to_broker::Any>());
  family(FamilyOf<wire::broker_to_supervisor::Any>());
  family(FamilyOf<wire::supervisor_to_worker::Any>());
  family(FamilyOf<wire::worker_to_supervisor::Any>());
  family(FamilyOf<std::variant<wire::held::Session, wire::held::SessionIds>>());
  family(FamilyOf<std::variant<wire::held::Job, wire::held::Graph, wire::held::Link,
                               wire::held::Segment, wire::held::LastJob, wire::held::Counters>>());
}

}  // namespace laneway::testing

// Messages between the service's own processes as bytes and back.
#include "service/wire/codec_templates.h"
#include "service/wire/held_counters.h"
#include "service/wire/held_jobs.h"
#include "service/wire/held_session.h"
#include "service/wire/standby_messages.h"
#include "service/wire/supervisor_messages.h"
#include "service/wire/worker_messages.h"

namespace laneway::wire {

LW_MESSAGE(supervisor_to_broker::Start);
LW_MESSAGE(supervisor_to_broker::Held);
LW_MESSAGE(supervisor_to_broker::HeldEnd);
LW_MESSAGE(supervisor_to_broker::WorkerUp);
LW_MESSAGE(supervisor_to_broker::WorkerDown);
LW_MESSAGE(supervisor_to_broker::Stop);
LW_MESSAGE(supervisor_to_broker::PolicyNews);
LW_MESSAGE(supervisor_to_broker::ReopenLog);
LW_MESSAGE(supervisor_to_broker::HoldsDone);
LW_MESSAGE(supervisor_to_broker::HoldRefused);
LW_MESSAGE(broker_to_supervisor::Hold);
LW_MESSAGE(broker_to_supervisor::Renote);
LW_MESSAGE(broker_to_supervisor::Release);
LW_MESSAGE(broker_to_supervisor::Heartbeat);
LW_MESSAGE(broker_to_supervisor::ShutdownRequested);
LW_MESSAGE(broker_to_supervisor::Stopped);
LW_MESSAGE(broker_to_supervisor::PolicyChanged);
LW_MESSAGE(broker_to_supervisor::PoolChanged);
LW_MESSAGE(broker_to_supervisor::PolicyFailed);
LW_MESSAGE(supervisor_to_worker::Start);
LW_MESSAGE(supervisor_to_worker::Activate);
LW_MESSAGE(supervisor_to_worker::BrokerChannel);
LW_MESSAGE(supervisor_to_worker::Stop);
LW_MESSAGE(supervisor_to_worker::MakePool);
LW_MESSAGE(supervisor_to_worker::Ping);
LW_MESSAGE(worker_to_supervisor::Ready);
LW_MESSAGE(worker_to_supervisor::PoolMade);
LW_MESSAGE(worker_to_supervisor::PoolRefused);
LW_MESSAGE(worker_to_supervisor::Activated);
LW_MESSAGE(worker_to_supervisor::Pong);
LW_MESSAGE(worker_to_supervisor::Unfit);
LW_MESSAGE(to_worker::AddJob);
LW_MESSAGE(to_worker::AddGraph);
LW_MESSAGE(to_worker::DropGraph);
LW_MESSAGE(to_worker::AddLink);
LW_MESSAGE(to_worker::DropLink);
LW_MESSAGE(to_worker::AddSegment);
LW_MESSAGE(to_worker::DropSegment);
LW_MESSAGE(to_worker::CloseJob);
LW_MESSAGE(to_worker::JobReport);
LW_MESSAGE(to_worker::Actions);
LW_MESSAGE(to_worker::Recovered);
LW_MESSAGE(to_worker::ReleaseJob);
LW_MESSAGE(to_worker::SetResidency);
LW_MESSAGE(from_worker::Reply);
LW_MESSAGE(from_worker::JobAdded);
LW_MESSAGE(from_worker::GraphAdded);
LW_MESSAGE(from_worker::Events);
LW_MESSAGE(from_worker::JobGone);
LW_MESSAGE(from_worker::JobText);
LW_MESSAGE(from_worker::Report);
LW_MESSAGE(from_worker::Iterations);
LW_MESSAGE(to_standby::PrepareJob);
LW_MESSAGE(to_standby::PrepareGraph);
LW_MESSAGE(to_standby::ForgetGraph);
LW_MESSAGE(to_standby::ForgetJob);
LW_MESSAGE(to_standby::Settle);
LW_MESSAGE(from_standby::Prepared);
LW_MESSAGE(held::Job);
LW_MESSAGE(held::Graph);
LW_MESSAGE(held::Link);
LW_MESSAGE(held::Segment);
LW_MESSAGE(held::LastJob);
LW_MESSAGE(held::Counters);
LW_MESSAGE(held::Session);
LW_MESSAGE(held::SessionIds);

}  // namespace laneway::wire

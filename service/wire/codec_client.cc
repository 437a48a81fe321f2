// Clients' messages as bytes and back.
#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"
#include "service/wire/codec_templates.h"

namespace laneway::wire {

LW_MESSAGE(Hello);
LW_MESSAGE(Bye);
LW_MESSAGE(CreateJob);
LW_MESSAGE(AttachJob);
LW_MESSAGE(AddGraph);
LW_MESSAGE(DropGraph);
LW_MESSAGE(AddSegment);
LW_MESSAGE(DropSegment);
LW_MESSAGE(CloseJob);
LW_MESSAGE(WaitJob);
LW_MESSAGE(JobReport);
LW_MESSAGE(ServiceStatus);
LW_MESSAGE(KillJob);
LW_MESSAGE(ReleaseJob);
LW_MESSAGE(SetResidency);
LW_MESSAGE(SetJob);
LW_MESSAGE(SetPolicy);
LW_MESSAGE(SetPool);
LW_MESSAGE(Shutdown);
LW_MESSAGE(StartRecord);
LW_MESSAGE(EndRecord);
LW_MESSAGE(Failure);
LW_MESSAGE(Done);
LW_MESSAGE(Welcome);
LW_MESSAGE(JobCreated);
LW_MESSAGE(JobAttached);
LW_MESSAGE(GraphAdded);
LW_MESSAGE(JobPlaced);
LW_MESSAGE(JobWaits);
LW_MESSAGE(Text);
LW_MESSAGE(StatusReply);
LW_MESSAGE(LifelineHello);
LW_MESSAGE(LifelineReady);
LW_MESSAGE(DescriptorMessage);

}  // namespace laneway::wire

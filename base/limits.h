// Every named maximum of Laneway, in one place, each with its reason. To reach one is an outcome
// that the caller sees (an error or an enum), never silent truncation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace laneway::limits {

// Graphs. Training steps of the largest models captured so far have under 10,000 nodes; a decoder
// must not be made to reserve more than its input justifies, so each count is also checked against
// the bytes that are left.
inline constexpr uint32_t kMaxGraphNodes = 1'000'000;
inline constexpr uint32_t kMaxGraphValues = 4'000'000;
inline constexpr uint32_t kMaxGraphInputs = 4'096;
inline constexpr uint32_t kMaxGraphOutputs = 65'536;
inline constexpr uint32_t kMaxNodeArguments = 256;  // fused optimizers have about 20
// Tables and losses that index with an input: a model has a few. Beyond the limit only the
// operator's own check is left, which comes later and says less.
inline constexpr uint32_t kMaxInputIndexChecks = 1'024;
// In total, list elements included: one byte of a message can ask for an argument of 40 bytes.
inline constexpr uint64_t kMaxGraphArguments = 16'000'000;
inline constexpr uint32_t kMaxGraphTexts = 2'000'000;  // distinct operators, names and user lines
// Names and user lines in total: many nodes can name one text of the table.
inline constexpr uint64_t kMaxGraphTextBytes = 512ull << 20;
inline constexpr uint32_t kMaxListElements = 1'000'000;  // foreach and fused lists, split results
inline constexpr uint32_t kMaxListDepth = 4;          // lists of lists of indices are the deepest
inline constexpr uint32_t kMaxTensorDimensions = 64;  // torch's own bound
inline constexpr uint32_t kMaxStringBytes = 4'096;    // operator names, user lines
inline constexpr uint64_t kMaxGraphBytes = 256ull << 20;
// All storages of a graph together, alive at once or not: sums stay far from overflow.
inline constexpr uint64_t kMaxGraphStorageBytes = 1ull << 56;
inline constexpr int32_t kMaxThreads = 1'024;            // of one iteration's operators
inline constexpr uint64_t kMaxTensorBytes = 1ull << 46;  // 64 TiB: products stay far from overflow

// Images and jobs.
inline constexpr uint32_t kMaxImageSlots = 1'000'000;
inline constexpr uint32_t kMaxGraphsPerJob = 64;  // shapes and modes; the least used is dropped
inline constexpr uint32_t kMaxJobs = 4'096;       // known to one service at a time
inline constexpr uint32_t kMaxLaneSms = 1'024;    // several times what a device has
inline constexpr uint32_t kMaxLanes = 64;         // each has a thread and a stream
inline constexpr uint32_t kMaxPostedEvents = 1u << 20;  // at the core's gateway; far above what all
                                                        // jobs together can have open
inline constexpr uint32_t kMaxInFlight = 64;        // iterations of one job accepted but not done
inline constexpr uint32_t kMaxCachedPlans = 1'024;  // per worker; the oldest hash goes first

// Links of a job: its owner's and those of attached sessions; a lane looks at each before it may
// sleep, and each costs broker and worker descriptors.
inline constexpr uint32_t kMaxLinksPerJob = 64;
// Segments that one link shares with the worker, with blocks of iterations and of state: a few for
// every graph. Each is a descriptor in broker and supervisor.
inline constexpr uint32_t kMaxSegmentsPerLink = 256;
// Bytes of torch.get_rng_state() on the CPU, and the bytes that a journal reserves for them.
inline constexpr uint64_t kRandomStateBytes = 5'056;
inline constexpr uint64_t kRandomStateRoom = 5'120;

// Channels between the service's processes. A frame carries a message; large contents travel as
// descriptors. A frame of this length is the report of a worker with every job at its limits.
inline constexpr uint32_t kMaxChannelFrameBytes = 64u << 20;
inline constexpr uint32_t kMaxFrameDescriptors = 16;  // of one frame; a message needs four at most
inline constexpr uint64_t kMaxChannelQueueBytes = 256ull << 20;  // not yet read by the other side
// A client's lifeline: descriptor messages with a short header. The queue bounds what the broker
// keeps for a client that does not read; beyond it the broker closes the lifeline.
inline constexpr uint32_t kMaxLifelineFrameBytes = 4u << 10;
inline constexpr uint32_t kMaxLifelineDescriptors = 4;
inline constexpr uint64_t kMaxLifelineQueueBytes = 64u << 10;

// Messages. The largest ones carry a million slots of a job, or the JSON of every job; graphs and
// tensors travel as descriptors.
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;
// The bytes that the broker reserves for a client that has not identified itself; some 300,000
// slots.
inline constexpr uint32_t kMaxRequestBytes = 16u << 20;
inline constexpr int kMaxQueuedRequests = 4;  // of one client: one request and its repetitions
inline constexpr int kMaxQueuedReplies = 16;  // to one client that does not read

// The broker's gateway: what a client can make the broker keep, before and after it has identified
// itself.
inline constexpr uint32_t kMaxSessions = 1'024;
inline constexpr uint32_t kMaxSessionsPerUser = 512;  // so that one user leaves room for others
inline constexpr uint32_t kMaxPendingConnectionsPerUser =
    64;  // lifelines without an identified client
inline constexpr uint32_t kMaxRequestsInWork =
    16;  // of a session: its client may have given up on some
inline constexpr uint32_t kMaxDescriptorMessages =
    4;  // descriptors of requests that have not arrived yet
inline constexpr uint32_t kMaxKeptAnswerBytes = 64u << 10;  // a longer answer is made again
// How long the broker waits for the second socket of a client, and for the descriptors of a
// request: on one machine they come within milliseconds, and a client that was stopped in between
// sends Hello again.
inline constexpr Duration kLifelinePatience = seconds(10);
inline constexpr Duration kDescriptorMessagePatience = seconds(10);

inline constexpr uint32_t kMaxWaitMs =
    1'000;  // of one WaitJob; for a longer wait the client sends another

// A job's pace is measured over at least this time: many iterations of most jobs, and yet soon
// correct when a client becomes slow. A waiting client asks once per kMaxWaitMs, so the pace is
// computed as often.
inline constexpr Duration kPaceWindow = seconds(1);

// A client without an answer sends its request again: soon, because a dead broker is replaced
// within moments; then more and more rarely, because repetitions add to the work of a busy broker.
// It gives up after a time in which even a long iteration or the largest graph would be complete.
inline constexpr Duration kFirstResend = seconds(1);
inline constexpr Duration kLongestResend = seconds(4);
inline constexpr Duration kLongestRequest = seconds(600);

// The broker: what one session, which is one client process, can make it keep. The descriptors of
// all sessions together must stay below the kernel's limit for a process.
inline constexpr uint32_t kMaxJobsPerSession = 256;
inline constexpr uint32_t kMaxRememberedEnds = 1'024;  // of jobs: the reasons why they ended

// Devices. Pieces of work enqueued on one stream and not yet complete: far more than an iteration
// enqueues, and few enough that a stream that has stopped is noticed.
inline constexpr uint32_t kMaxStreamQueue = 65'536;
// The size of each of the two pinned chunks through which bytes pass into a pool that the CPU
// cannot address: large enough that the fixed cost of a copy (some 10 us) does not matter, small
// enough that the copy of the first chunk, which overlaps with nothing, does not either.
inline constexpr Bytes kCopyChunk = mib(8);

// The trace of a service. Records wait in memory until the broker is idle, a tenth of a second at
// most; records without room are counted. The largest is the report of a worker with every job.
inline constexpr uint32_t kMaxTraceBufferBytes = 32u << 20;
inline constexpr uint32_t kMaxTraceRecordBytes = 16u << 20;
inline constexpr Duration kLongestTraceDelay = milliseconds(100);
// Notes of a worker that are not sent yet; it sends them when half of this number is there.
inline constexpr uint32_t kMaxIterationNotes = 4'096;

// Offsets in the pool are multiples of this on the host (cache line, and what torch's own CPU
// allocator gives); on CUDA of 512 (what torch's own CUDA allocator gives: kernels pick their
// vectorised forms by it).
inline constexpr int64_t kHostAlignment = 64;
inline constexpr int64_t kCudaAlignment = 512;

// How much device work a lane may have enqueued: enough that the device never waits for the CPU,
// little enough that a lane stops soon after it must.
inline constexpr Duration kRunAhead = milliseconds(1);
// Marks on the stream show how far it is: one mark for about kRunAheadMark of work, so that marks
// (1 to 2 us each) cost a hundredth of the work, and at least one per kMaxNodesPerMark nodes, so
// that a change of pace is noticed. kMaxRunAheadMarks marks are more than kRunAhead of work; this
// bound holds while the time of the work is unknown.
inline constexpr Duration kRunAheadMark = microseconds(100);
inline constexpr uint32_t kMaxNodesPerMark = 32;
inline constexpr size_t kMaxRunAheadMarks = 16;

// Pinned memory of a lane through which inputs and outputs pass: those of the largest batches, for
// every iteration in flight. Bytes without room there are copied while the caller waits.
inline constexpr Bytes kMaxLaneStaging = Bytes(512ll << 20);
// The smallest block of that memory: one is enough for most jobs' iterations.
inline constexpr Bytes kMinStagingBlock = Bytes(1 << 20);
// Larger inputs are staged in pieces, so that the link carries one while the next is staged.
inline constexpr Bytes kStagingPiece = Bytes(4 << 20);

// Iterations of a lane that are still on the device while the next is enqueued: two keep the device
// busy, the others are for iterations much shorter than kRunAhead.
inline constexpr uint32_t kMaxEnqueued = 4;

// The workspace that a library may take for one operator on a lane, where the library asks before
// it chooses an algorithm: the largest one of cuDNN's heuristics for common convolutions.
inline constexpr Bytes kMaxLibraryWorkspace = Bytes(1 << 30);

// The part of a device's free memory that becomes the pool: the rest is for torch's own workspaces,
// the driver's, and the modules of kernels that are loaded later.
inline constexpr int64_t kDevicePoolPercent = 90;

// How long a lane's thread with iterations in flight spins before it sleeps between two looks for
// retired iterations and new work: about the cost of waking a thread. From then on it sleeps for a
// thirty-second of the time that it has waited already, within the next two limits: so it notices
// late by little, and uses little of the core.
inline constexpr Duration kLandingSpin = microseconds(50);
inline constexpr Duration kShortestLandingRest = microseconds(20);
inline constexpr Duration kLongestLandingRest = microseconds(200);

// Failures of the device during work of a job, after which the job is not run again: one of them
// may have been caused by another job at the same time.
inline constexpr uint32_t kMaxSuspicions = 2;
// Iterations that a suspect runs alone on the device, unless its work ends before: as many as one
// of its clients can have had in flight when the device failed. Afterwards it is acquitted, because
// during a long training other jobs may break the device again.
inline constexpr uint32_t kSuspectIterations = kMaxInFlight;

// Planned iterations at equal addresses before one is recorded for replay: capture allocates, and
// a plan may still change after the first ones.
inline constexpr uint32_t kReplayAfter = 3;

// The supervisor. Standbys each hold a process with LibTorch loaded (some 200 MiB).
inline constexpr uint32_t kMaxStandbys = 8;
inline constexpr Bytes kMinPool = Bytes(1 << 20);  // below this no training step fits
// What the supervisor holds for the broker: sessions, jobs, graphs, links and segments, each a key
// with a note. A note is at most as long as a request (the slots of a job are most of it).
inline constexpr uint32_t kMaxHeldKeys = 1u << 18;
inline constexpr uint32_t kMaxHeldKeyBytes = 128;
inline constexpr uint32_t kMaxHeldNoteBytes = 48u << 20;  // leaves room in a channel's frame
inline constexpr uint64_t kMaxHeldBytes = 1ull << 30;     // keys and notes together
// A process that dies is started again: the first time at once, then after longer and longer
// delays. A process that dies this often in this window is not started again.
inline constexpr uint32_t kMaxDeaths = 10;
inline constexpr Duration kDeathsWindow = seconds(60);
inline constexpr Duration kFirstRestartDelay = milliseconds(100);
inline constexpr Duration kLongestRestartDelay = seconds(5);
// A broker that sends nothing for this long hangs, and is killed.
inline constexpr Duration kHeartbeatPatience = seconds(30);
// A worker must report within this time that it has loaded LibTorch and mapped the pool; cold disks
// are slow.
inline constexpr Duration kWorkerStartPatience = seconds(120);
// A worker that has closed its channel is about to exit; if it does not, it is killed, and its exit
// code is lost.
inline constexpr Duration kHangUpPatience = seconds(1);
// The time for an orderly end; processes that are left after it are killed.
inline constexpr Duration kStopPatience = seconds(10);

}  // namespace laneway::limits

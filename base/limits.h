// Every named maximum of Laneway, in one place, each with why. Reaching one is an outcome that the
// caller sees (an error or an enum), never silent truncation.
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
// Tables and losses that index with an input: a model has a few. Behind the limit an operator's own
// check is left, which is later and says less.
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

// Links of a job: its owner and who attached to it; each is looked at before a lane may rest.
inline constexpr uint32_t kMaxJobLinks = 64;
// Memory that one of them shares with the worker: a few per graph.
inline constexpr uint32_t kMaxLinkSegments = 512;
// Bytes of torch.get_rng_state() on the CPU, and what a journal keeps room for.
inline constexpr uint64_t kRandomStateBytes = 5'056;
inline constexpr uint64_t kRandomStateRoom = 5'120;

// Channels between the service's processes. A frame carries a message; what is large travels as a
// descriptor, so a frame this long is the report of a worker with every job at its limits.
inline constexpr uint32_t kMaxChannelFrameBytes = 64u << 20;
inline constexpr uint32_t kMaxFrameDescriptors = 16;  // of one frame; a message needs four at most
inline constexpr uint64_t kMaxChannelQueueBytes = 256ull << 20;  // not yet read by the other side
// A client's lifeline: descriptor messages with a short header. The queue is what a client that
// does not read can make the broker keep; it is then hung up on.
inline constexpr uint32_t kMaxLifelineFrameBytes = 4u << 10;
inline constexpr uint32_t kMaxLifelineDescriptors = 4;
inline constexpr uint64_t kMaxLifelineQueueBytes = 64u << 10;

// Messages. The largest ones carry a million slots of a job, or the JSON of every job; graphs and
// tensors travel as descriptors.
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;
// What one client can have the broker reserve before it says who it is; some 300,000 slots.
inline constexpr uint32_t kMaxRequestBytes = 16u << 20;
inline constexpr int kMaxQueuedRequests = 4;  // of one client: one, and the times it was repeated
inline constexpr int kMaxQueuedReplies = 16;  // to one client that does not read

// The broker's gateway. What a client can make the broker keep, before and after it has said
// who it is.
inline constexpr uint32_t kMaxSessions = 1'024;
inline constexpr uint32_t kMaxSessionsPerUser = 512;  // so that one user leaves room for others
inline constexpr uint32_t kMaxPendingConnectionsPerUser =
    64;                                             // lifelines that have not said whose they are
inline constexpr uint32_t kMaxRequestsInWork = 16;  // of a session: its client gave up on some
inline constexpr uint32_t kMaxDescriptorMessages =
    4;  // descriptors of requests that did not come yet
inline constexpr uint32_t kMaxKeptAnswerBytes = 64u << 10;  // a longer one is made again
// Both sockets of a client, and the descriptors of a request: on one machine they come within
// milliseconds, and a client that was stopped in between says Hello again.
inline constexpr Duration kLifelinePatience = seconds(10);
inline constexpr Duration kDescriptorMessagePatience = seconds(10);

inline constexpr uint32_t kMaxWaitMs = 1'000;  // one WaitJob; a longer wait is asked for again

// A job's pace is taken over at least so long: many iterations of most jobs, and yet soon right
// when a client becomes slow. Who waits asks once in kMaxWaitMs, so that it is looked at as often.
inline constexpr Duration kPaceWindow = seconds(1);

// A client that hears nothing says it again: soon, because a broker is back within moments; ever
// more rarely, because a busy one only gets busier. It gives up when even the end of a long
// iteration or the largest graph would be through.
inline constexpr Duration kFirstResend = seconds(1);
inline constexpr Duration kLongestResend = seconds(4);
inline constexpr Duration kLongestRequest = seconds(600);

// Broker. What one session can make it keep: a session is one client process; the descriptors of
// all sessions together must stay below what the kernel gives a process.
inline constexpr uint32_t kMaxJobsPerSession = 256;
inline constexpr uint32_t kMaxLinksPerJob = 64;  // its owner's and those who attached
// Blocks of iterations and of state, a few for every graph.
inline constexpr uint32_t kMaxSegmentsPerLink = 256;
inline constexpr uint32_t kMaxRememberedEnds = 1'024;  // of jobs: to say why one is gone

// Devices. Work enqueued on one stream and not yet done: far more than an iteration enqueues, and
// few enough that a stream that no longer moves is noticed.
inline constexpr uint32_t kMaxStreamQueue = 65'536;
// Of the two pinned chunks through which bytes of the CPU's pass into a pool that it cannot
// address: long enough that the fixed cost of a copy (some 10 us) is lost in it, short enough that
// the first chunk's own copy, which nothing overlaps, is.
inline constexpr Bytes kCopyChunk = mib(8);

// The trace of a service. Records wait in memory until the broker is idle, a tenth of a second at
// most; what has no room is counted. The largest is the report of a worker with every job.
inline constexpr uint32_t kMaxTraceBufferBytes = 32u << 20;
inline constexpr uint32_t kMaxTraceRecordBytes = 16u << 20;
inline constexpr Duration kLongestTraceDelay = milliseconds(100);
// Of a worker, until they are told: sent when half of them are there.
inline constexpr uint32_t kMaxIterationNotes = 4'096;

// Offsets in the pool are multiples of this on the host (cache line, and what torch's own CPU
// allocator gives); on CUDA of 512 (what torch's own CUDA allocator gives: kernels pick their
// vectorised forms by it).
inline constexpr int64_t kHostAlignment = 64;
inline constexpr int64_t kCudaAlignment = 512;

// How much device work a lane may have enqueued: enough that the device never waits for the CPU,
// little enough that a lane that is to stop has stopped soon after.
inline constexpr Duration kRunAhead = milliseconds(1);
// Marks on the stream tell how far it is: one for about so much work, which makes their price (1 to
// 2 us) a hundredth of it, and never so rarely that a change of pace goes unnoticed. So many marks
// are more than kRunAhead of work; the bound on them holds while nothing is known about the work.
inline constexpr Duration kRunAheadMark = microseconds(100);
inline constexpr uint32_t kMaxNodesPerMark = 32;
inline constexpr size_t kMaxRunAheadMarks = 16;

// Pinned memory of a lane through which inputs and outputs pass: those of the largest batches, for
// every iteration that is on its way. What has no room there is copied while the caller waits.
inline constexpr Bytes kMaxLaneStaging = Bytes(512ll << 20);
// The smallest piece of it: one is enough for most jobs' iterations.
inline constexpr Bytes kMinStagingBlock = Bytes(1 << 20);
// Larger inputs are staged in pieces, so that the link carries one while the next is staged.
inline constexpr Bytes kStagingPiece = Bytes(4 << 20);

// Iterations of a lane that are still on the device while the next is enqueued: two keep it busy,
// the rest is for iterations much shorter than kRunAhead.
inline constexpr uint32_t kMaxEnqueued = 4;

// What a library may take for one operator on a lane, where it asks before it chooses how to
// compute: the largest that cuDNN's heuristics want for common convolutions.
inline constexpr Bytes kMaxLibraryWorkspace = Bytes(1 << 30);

// Of what is free on a device of its own, as a pool: the rest is for torch's own workspaces, the
// driver's, and the modules of kernels that are loaded later.
inline constexpr int64_t kDevicePoolPercent = 90;

// How long a lane's thread looks all the time whether something was retired or came before it rests
// in between: about what waking a thread costs. From then on it looks again after a thirty-second
// of the time that it has waited already, within the next two: late by little, busy for little.
inline constexpr Duration kLandingSpin = microseconds(50);
inline constexpr Duration kShortestLandingRest = microseconds(20);
inline constexpr Duration kLongestLandingRest = microseconds(200);

// Failures of the device while it had work of a job after which the job is not tried again: one may
// have been another job's, which ran at the same time.
inline constexpr uint32_t kMaxSuspicions = 2;
// Iterations that a suspect does with the device to itself, unless it has no more work before: what
// one of its clients can have had in flight when the device failed. Then it is no suspect any more:
// beside a long training there is always somebody who breaks something.
inline constexpr uint32_t kSuspectIterations = kMaxInFlight;

// Planned iterations at equal addresses before one is recorded for replay: capture allocates, and
// a plan may still change after the first ones.
inline constexpr uint32_t kReplayAfter = 3;

// The supervisor. Standbys each hold a process with LibTorch loaded (some 200 MiB).
inline constexpr uint32_t kMaxStandbys = 8;
inline constexpr Bytes kMinPool = Bytes(1 << 20);  // below this no training step fits
// What the broker has held: sessions, jobs, graphs, links and segments, each a key with a note. A
// note is at most what a request says (the slots of a job are most of it).
inline constexpr uint32_t kMaxHeldKeys = 1u << 18;
inline constexpr uint32_t kMaxHeldKeyBytes = 128;
inline constexpr uint32_t kMaxHeldNoteBytes = 48u << 20;  // with room in a channel's frame
inline constexpr uint64_t kMaxHeldBytes = 1ull << 30;     // keys and notes together
// A process that dies is started again: the first time at once, then later and later, and not for
// ever: one that dies this often in so short a time will not live.
inline constexpr uint32_t kMaxDeaths = 10;
inline constexpr Duration kDeathsWindow = seconds(60);
inline constexpr Duration kFirstRestartDelay = milliseconds(100);
inline constexpr Duration kLongestRestartDelay = seconds(5);
// A broker that says nothing for this long hangs, and is killed.
inline constexpr Duration kHeartbeatPatience = seconds(30);
// A worker that has loaded LibTorch and mapped the pool says so; cold disks are slow.
inline constexpr Duration kWorkerStartPatience = seconds(120);
// One that has hung up is about to end; if it does not, it is killed, and how it ended is lost.
inline constexpr Duration kHangUpPatience = seconds(1);
// An orderly end; what is left after it is killed.
inline constexpr Duration kStopPatience = seconds(10);

}  // namespace laneway::limits

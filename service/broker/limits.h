// Maxima of the broker: what clients can make it keep, and for how long.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laneway::limits {

// What clients can make the gateway keep, before and after they have identified themselves.
inline constexpr uint32_t kMaxSessions = 1'024;
inline constexpr uint32_t kMaxSessionsPerUser = 512;  // so that one user leaves room for others
// Of everything that is counted by user (quotas.h) a part is the operators' alone: whatever two
// users hold, the owner gets in and sees it.
inline constexpr uint32_t kSessionsOfOperators = 8;
inline constexpr uint32_t kMaxJobsPerUser = 1'024;
inline constexpr uint32_t kJobsOfOperators = 16;
// Notes of jobs, which the supervisor holds and each new broker says to the worker. In all less
// than a channel queues (kMaxChannelQueueBytes): a broker that begins must be able to say
// everything.
inline constexpr uint64_t kMaxHeldBytesPerUser = 64ull << 20;
inline constexpr uint64_t kMaxHeldBytesInAll = 192ull << 20;
inline constexpr uint64_t kHeldBytesOfOperators = 8ull << 20;
// Longer than any path of modules; a job may have a million of them.
inline constexpr uint32_t kMaxSlotNameBytes = 256;
// Open files that the broker needs beside those of clients: listeners, channels, a trace, ZeroMQ's
// own, and copies on their way. What is left is the clients', half of it one user's.
inline constexpr uint32_t kDescriptorsOfOwn = 48;
inline constexpr uint32_t kDescriptorsOfOperators = 64;
inline constexpr uint32_t kDescriptorsOfSession = 5;  // connection, lifeline, those of an answer
inline constexpr uint32_t kDescriptorsOfLink = 4;
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
// A job's pace is measured over at least this time: many iterations of most jobs, and yet soon
// correct when a client becomes slow. A waiting client asks once per kMaxWaitMs, so the pace is
// computed as often.
inline constexpr Duration kPaceWindow = seconds(1);
// A policy from outside the tree says hello within this time: what it imports may lie on a cold
// disk.
inline constexpr Duration kPolicyStartPatience = seconds(15);
// Whoever looks so much later than it wanted to whether the policy's process is late was stopped
// itself, and the process perhaps with it.
inline constexpr Duration kPolicyBlame = milliseconds(250);
// The broker: what one session, which is one client process, can make it keep. The descriptors of
// all sessions together must stay below the kernel's limit for a process.
inline constexpr uint32_t kMaxJobsPerSession = 256;
inline constexpr uint32_t kMaxRememberedEnds = 1'024;  // of jobs: the reasons why they ended

}  // namespace laneway::limits

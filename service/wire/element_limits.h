// What the archives must know of the types in messages: how many enumerators an enum has, and how
// many elements of a type one list may have. One row for each type; a type without a row does not
// compile as an enum, and gets the general limit as an element.
#pragma once

#include <cstdint>

#include "base/job_options.h"
#include "base/limits.h"
#include "base/result.h"
#include "lanes/graph/limits.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "lanes/state/reason.h"
#include "lanes/state/report.h"
#include "lanes/state/snapshot.h"
#include "lanes/state/turn.h"
#include "service/wire/graph_info.h"
#include "service/wire/iteration_note.h"
#include "service/wire/job_spec.h"
#include "service/wire/limits.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::wire {

// Values are 0 … count - 1.
template <class Enum>
inline constexpr uint8_t kEnumeratorCount = 0;
template <>
inline constexpr uint8_t kEnumeratorCount<ErrorCode> = 14;
template <>
inline constexpr uint8_t kEnumeratorCount<ValueKind> = 4;
template <>
inline constexpr uint8_t kEnumeratorCount<SlotKind> = 5;
template <>
inline constexpr uint8_t kEnumeratorCount<JobClass> = 3;
template <>
inline constexpr uint8_t kEnumeratorCount<Replay> = 3;
template <>
inline constexpr uint8_t kEnumeratorCount<WorkerRole> = 2;
template <>
inline constexpr uint8_t kEnumeratorCount<WorkerState> = 3;
template <>
inline constexpr uint8_t kEnumeratorCount<IterationOutcome> = 6;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::ReasonCode> = lanes::kReasonCodeCount;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::TurnEnd> = 4;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::Tier> = lanes::kTierCount;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::ImageState> = lanes::kImageStateCount;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::Residency> = 4;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::AdviserNews> = 3;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::JobState> = lanes::kJobStateCount;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::LaneState> = 4;
template <>
inline constexpr uint8_t kEnumeratorCount<lanes::PieceKind> = 3;

static_assert(static_cast<int>(ErrorCode::busy) == 13);
static_assert(static_cast<size_t>(lanes::ReasonCode::no_way_back) == lanes::kReasonCodeCount - 1);
static_assert(static_cast<int>(lanes::TurnEnd::failed) == 3);
static_assert(static_cast<size_t>(lanes::kTiers.back()) == lanes::kTierCount - 1);
static_assert(static_cast<int>(lanes::ImageState::away) == lanes::kImageStateCount - 1);
static_assert(static_cast<int>(lanes::Residency::unpin) == 3);
static_assert(static_cast<int>(lanes::AdviserNews::gone) == 2);
static_assert(static_cast<int>(lanes::JobState::cancelled) == lanes::kJobStateCount - 1);
static_assert(static_cast<int>(lanes::LaneState::recalled) == 3);
static_assert(static_cast<int>(lanes::PieceKind::region) == 2);

template <class Element>
inline constexpr uint32_t kMaxElements = limits::kMaxListElements;
template <>
inline constexpr uint32_t kMaxElements<InputInfo> = limits::kMaxGraphInputs;
template <>
inline constexpr uint32_t kMaxElements<OutputInfo> = limits::kMaxGraphOutputs;
template <>
inline constexpr uint32_t kMaxElements<GraphInfo> = limits::kMaxGraphsPerJob;
template <>
inline constexpr uint32_t kMaxElements<ImageSlot> = limits::kMaxImageSlots;
template <>
inline constexpr uint32_t kMaxElements<lanes::ReportedJob> = limits::kMaxJobs;
template <>
inline constexpr uint32_t kMaxElements<lanes::ReportedRegion> = limits::kMaxLanes;
template <>
inline constexpr uint32_t kMaxElements<lanes::JobStatus> = limits::kMaxJobs;
template <>
inline constexpr uint32_t kMaxElements<lanes::LaneStatus> = limits::kMaxLanes;
template <>
inline constexpr uint32_t kMaxElements<lanes::RegionStatus> = limits::kMaxLanes;
template <>
inline constexpr uint32_t kMaxElements<lanes::Event> = limits::kMaxPostedEvents;
template <>
inline constexpr uint32_t kMaxElements<lanes::Action> = limits::kMaxPostedEvents;
template <>
inline constexpr uint32_t kMaxElements<IterationNote> = limits::kMaxIterationNotes;

}  // namespace laneway::wire

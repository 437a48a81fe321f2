// ImageLife: where a job's image is and what is being done with it: one state with what belongs to
// it. The core decides by it, a worker carries it out, a worker's report says it; the journal has
// those of its states that outlive a worker. Plain data, and functions for the steps from one state
// to the next; not thread-safe.
//
//     absent ─► coming ─────────────► here ◄──► saving        (copied out ahead of need)
//                 ▲  └► arriving ──────┘ ▲ └──► moving        (inside the pool)
//                 │                      │ └──► leaving ─► away
//                 │                      └───────┘ it stays │
//                 └─────────────────────────────────────────┘
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "lanes/pool/image_prefix.h"
#include "lanes/pool/outside_place.h"

namespace laneway::lanes {

enum class ImageState : uint8_t {
  absent,    // it has no bytes but the first ones, which its job was made with; or the job is over
  coming,    // it has its range in the pool, and its bytes are on their way: from `copy`, where
             // there is one, else its first bytes
  arriving,  // the same, from `copy`, and iterations run behind the bytes
  here,      // it is whole in the pool
  saving,    // … and is copied to `copy` ahead of need
  moving,    // … and is copied to `moves_to`, another place of the pool
  leaving,   // it goes to `copy`: now, or when its job's turn has ended
  away,      // it lies at `copy` alone
};
inline constexpr size_t kImageStateCount = 8;

const char* image_state_name(ImageState state);

// The table of the state machine.
bool image_transition_allowed(ImageState from, ImageState to);

struct ImageLife {
  ImageState state = ImageState::absent;
  // What lies at `copy` is whole, and equal to the image.
  bool clean = false;
  // Of leaving: it was saving when that was decided, and the answer to that comes first.
  bool saves = false;
  OutsidePlace copy;  // its place outside of the pool; Tier::none: it has none
  // Of coming and arriving: so much is in the pool already, in its own range or in one beside it.
  // Of leaving: so much will stay; of away: has stayed.
  ImagePrefix prefix;
  Bytes moves_to;  // of moving

  // Whether it has its range of the pool; and whether iterations may use it there.
  bool in_pool() const { return state != ImageState::absent && state != ImageState::away; }
  bool is_usable() const { return in_pool() && state != ImageState::coming; }
  // It comes back, or is about to be used while it does.
  bool comes_back() const {
    return state == ImageState::arriving || (state == ImageState::coming && clean);
  }
  // The answer to a copy ahead of need is still to come.
  bool is_saved() const { return state == ImageState::saving || saves; }
  // Whether state and members fit each other. The steps keep it so; what comes from another process
  // may be anything.
  bool consistent() const;

  // The steps. Requires, of each: the table allows it; another one is a bug.
  void come(const ImagePrefix& stayed);
  void arrive();  // Requires: clean
  void placed();
  void save_to(const OutsidePlace& place);
  void saved(bool whole);  // also while it leaves
  void move_to(Bytes offset);
  void moved();  // … or did not
  // To `copy` where it has one, else there.
  void leave_to(const OutsidePlace& place, const ImagePrefix& stays);
  void left();
  // Its copy failed. What lies outside is no copy of it.
  void stay();
  // What lies outside is no copy of it any more. Returns whether its place there is free now.
  bool outdate();

  friend bool operator==(const ImageLife&, const ImageLife&) = default;

 private:
  void change_to(ImageState next);
  void forget_copy();
};

}  // namespace laneway::lanes

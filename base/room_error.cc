#include "base/room_error.h"

namespace laneway {

Error wrong_room(const std::string& what, const std::string& unit, Room room) {
  return Error{ErrorCode::invalid_argument, what + " has " + std::to_string(room.needed) + " " +
                                                unit + ", room was given for " +
                                                std::to_string(room.given)};
}

}  // namespace laneway

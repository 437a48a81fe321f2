// UTF-8: functions that check whether received bytes are text, and that make text of them. Pure
// functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace laneway {

// Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates; RFC 3629).
bool is_utf8(std::span<const std::byte> bytes);

// How many bytes the well-formed sequence at the beginning of `text` has; 0 when none begins there.
// Requires: it is not empty.
size_t utf8_length(std::string_view text);

// `text` with '?' for every byte outside of well-formed sequences. For texts from outside Laneway
// (an operator's error message, a program's name) that become part of a message.
std::string to_utf8(std::string_view text);

}  // namespace laneway

// UTF-8: whether bytes that somebody sent are text. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace laneway {

// Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates; RFC 3629).
bool is_utf8(std::span<const std::byte> bytes);

// `text` with '?' for every byte that is of no well-formed sequence, for texts of others (an
// operator's error message, a program's name) on their way into a message.
std::string to_utf8(std::string_view text);

}  // namespace laneway

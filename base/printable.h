// Printable: the one rule for text that clients gave and people read, in log lines, traces and
// tables: nothing in it ends a line, obeys a terminal or turns the direction of what follows. The
// same rule for Python's side is in python/laneway/printable.py; a test holds both to one table.
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace laneway {

// A name has so many columns in a line at most; the rest of a longer one is "..".
inline constexpr size_t kPrintableColumns = 64;

// `text` with an escape as Python's (\n, \x1b, \u202e) in place of each control character, end of
// line, character without a form of its own (marks of direction among them) and byte that is no
// UTF-8.
std::string escaped(std::string_view text);

// The beginning of escaped(text), as far as it fits into kPrintableColumns columns of a terminal.
std::string printable(std::string_view text);

}  // namespace laneway

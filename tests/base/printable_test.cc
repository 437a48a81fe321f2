// Shows the rule for text that clients gave: what comes out has no character that a terminal obeys,
// stays as it is where it has none, and is never longer than its columns. The table is also what
// tests/python/test_printable.py holds the rule of Python to.
#include "base/printable.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/utf8.h"
#include "tests/support/seed.h"

namespace laneway {
namespace {

struct Row {
  std::string given;
  std::string escaped;
};

std::string many(size_t count, const std::string& end) {
  std::string text(count, 'n');
  text += end;
  return text;
}

// Each line of the table: bytes in hexadecimal, a blank, and what is printed.
std::vector<Row> table() {
  std::ifstream file(LANEWAY_PRINTABLE_TABLE);
  std::vector<Row> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line.front() == '#') continue;
    const size_t blank = line.find(' ');
    std::string given;
    for (size_t i = 0; i + 1 < blank; i += 2)
      given.push_back(static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16)));
    rows.push_back({given, line.substr(blank + 1)});
  }
  return rows;
}

TEST(Printable, EscapesAsTheTableSays) {
  const std::vector<Row> rows = table();
  ASSERT_GT(rows.size(), 10u);
  for (const Row& row : rows) {
    EXPECT_EQ(escaped(row.given), row.escaped);
    EXPECT_EQ(printable(row.given), row.escaped);  // all of them are short
  }
}

TEST(Printable, ALongNameIsCutAt64Columns) {
  EXPECT_EQ(printable(many(64, "")), many(64, ""));
  EXPECT_EQ(printable(many(65, "")), many(62, ".."));
  EXPECT_EQ(printable(std::string(4'096, '\n')).size(), 64u);
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += "\xe6\x95\xb0";  // 数: two columns, three bytes
  EXPECT_EQ(printable(wide), wide.substr(0, size_t{31} * 3) + "..");
  // No escape is cut in its middle.
  EXPECT_EQ(printable(many(60, "\x1b[31m")), many(60, ".."));
}

TEST(Printable, WhateverBytesComeNothingInTheLineIsObeyed) {
  Random random(laneway::testing::seed_from_environment(41));
  for (int i = 0; i < 2'000; ++i) {
    std::string given(random.below(80), '\0');
    for (char& c : given) c = static_cast<char>(random.below(256));
    const std::string line = printable(given);
    EXPECT_EQ(to_utf8(line), line);
    for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
    EXPECT_EQ(escaped(line), line);  // no mark of direction, no line separator is left
  }
}

}  // namespace
}  // namespace laneway

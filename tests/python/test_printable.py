"""What users gave and people read is escaped and cut by one rule, in Python as in C++: the table is
that of tests/base/printable_test.cc."""

from pathlib import Path

import pytest

from laneway.printable import COLUMNS, columns_of, escaped, printable

TABLE = Path(__file__).resolve().parents[1] / "base" / "printable_table.txt"
ROWS = [
    line.split(" ", 1)
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("given, shown", ROWS, ids=[row[0][:16] for row in ROWS])
def test_a_name_is_escaped_as_the_table_says(given, shown):
    name = bytes.fromhex(given).decode()
    assert escaped(name) == shown == printable(name)


def test_a_long_name_is_cut():
    assert printable("n" * COLUMNS) == "n" * 64
    assert printable("n" * 65) == "n" * 62 + ".."
    assert columns_of(printable("\n" * 4096)) <= 64
    assert printable("数" * 40) == "数" * 31 + ".."

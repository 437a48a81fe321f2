"""PyTorch's own databases of operators, modules and optimizers as the judge: every operator once
through laneway.inference and torch.compile, every module and optimizer trained, in processes that
may crash. Nothing may be silently different, run eagerly without a word, fail unclearly, reach the
user as an error that eager does not raise, crash or hang; and python/OPERATORS.md says what came of
each. LANEWAY_LONG=1 (./dev test --long) judges all samples in all layouts as well."""

from __future__ import annotations

import os

import pytest

from bench import operators
from bench.corpus import outcomes, parts, pool
from bench.corpus.outcomes import Row
from support import corpus_page

pytestmark = [
    pytest.mark.embedded_only(reason="workers have services of their own"),
    pytest.mark.host_only(reason="eager PyTorch on the CPU is what is compared with"),
]
WORKERS = min(operators.WORKERS, len(os.sched_getaffinity(0)))
MADE_BY = "run .venv/bin/python tests/python/write_operators.py --write"


@pytest.fixture(scope="module")
def judged():
    """The rows of a part's short form, found once."""
    found: dict[str, list[Row]] = {}

    def rows_of(part: str) -> list[Row]:
        if part not in found:
            found[part] = pool.judge(corpus_page.short_form(part), WORKERS)
        return found[part]

    return rows_of


def wrong(rows: list[Row]) -> str:
    return "\n".join(row.line() for row in rows if row.outcome.kind in outcomes.WRONG)


@pytest.mark.parametrize("part", corpus_page.SHORT_PARTS)
def test_nothing_is_wrong(part: str, judged) -> None:
    rows = judged(part)
    assert not wrong(rows), wrong(rows)
    assert sum(row.outcome.kind == outcomes.EQUAL for row in rows) > len(rows) / 2


def test_the_page_is_what_came_of_it(judged) -> None:
    text = corpus_page.page({part: judged(part) for part in corpus_page.SHORT_PARTS})
    assert text == corpus_page.PAGE.read_text(), MADE_BY


@pytest.mark.skipif(os.environ.get("LANEWAY_LONG") != "1", reason="hours; LANEWAY_LONG=1 runs it")
@pytest.mark.parametrize("part", parts.PARTS)
def test_all_samples_in_all_layouts(part: str) -> None:
    rows = pool.judge(operators.units(part, quick=False), WORKERS)
    assert not wrong(rows), wrong(rows)


@pytest.mark.skipif(os.environ.get("LANEWAY_LONG") != "1", reason="long; LANEWAY_LONG=1 runs it")
@pytest.mark.parametrize("part", ("inference", "compile"))
@pytest.mark.parametrize("dtype", ("int64", "bool", "bfloat16", "complex64"))
def test_other_dtypes(part: str, dtype: str) -> None:
    names = parts.names(part, dtype)
    units = [pool.Unit(part, name, dtype, 1, ("contiguous",)) for name in names]
    rows = pool.judge(units, WORKERS)
    assert not wrong(rows), wrong(rows)

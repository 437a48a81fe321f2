"""A section of gpu-check that keeps its lines in memory, and what they say."""

from __future__ import annotations

import io
import json
from typing import Any

from bench.gpu.section import Section, Settings
from bench.gpu.trials import Trials


def section_of(settings: Settings | None = None, **options: Any) -> Section:
    """Of these settings, or of new ones with these options."""
    return Section("test", settings=settings or Settings(**options), file=io.StringIO())


def lines_of(section: Section) -> list[dict[str, Any]]:
    return [json.loads(line) for line in section.file.getvalue().splitlines()]


def rows_of(section: Section) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["case"], row["metric"]): row for row in section.rows}


def trials_of(times_us: dict[str, list[float]], failed: dict[str, str] | None = None) -> Trials:
    """Trials whose rounds all took as given, of two iterations each."""
    trials = Trials("mlp", failed=failed or {})
    trials.times_ns = {
        name: [[round(us * 1e3)] * 2 for us in rounds] for name, rounds in times_us.items()
    }
    return trials

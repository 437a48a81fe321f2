"""The short form of torch's databases through Laneway, and the page that is made from it."""

from __future__ import annotations

import re
from pathlib import Path

from bench.corpus import exclusions, outcomes, parts, pool
from bench.corpus.outcomes import Row

PAGE = Path(__file__).resolve().parents[3] / "python" / "OPERATORS.md"
SHORT_PARTS = ("inference", "compile", "modules", "optimizers")

_INTRODUCTION = """# PyTorch's own databases, through Laneway

PyTorch tests itself by databases of its operators, modules and optimizers, with inputs for each.
Each of them runs here eagerly and through Laneway, in float32 on the CPU with one thread, and all
that comes out is compared to the last bit: an operator by one input of the database, in one of five
layouts in memory (as it is, transposed, channels last, expanded, a slice of something larger) and
twice, with other values the second time; a module by three steps of SGD and of AdamW and by an
evaluation; an optimizer by five steps with each of its sets of options. `./dev bench operators`
runs all inputs in all layouts, other implementations of optimizers, and gradients of operators.
`.venv/bin/python tests/python/write_operators.py --write` makes this page from the outcomes, and a
test fails when it says anything else.

| it says | meaning |
| --- | --- |
| bit-equal as a job | every byte is that of eager PyTorch (by \
`torch.compile` also strides, shared memory, writes to inputs), and nothing ran eagerly |
| eager with a warning | `torch.compile` runs it eagerly, as a `RuntimeWarning` and \
`laneway.compile_backend.report()` say in these words |
| refused | `laneway.Error` is raised with these words, before anything is changed |
| n/a | eager PyTorch refuses it, or does not do it twice the same |

In messages, FILE:LINE stands for the line of the user's at fault, and N for the first element of a
singular matrix that the processor at hand finds to be zero.
"""
_ZERO_ELEMENT = re.compile(r"diagonal element \d+ is zero")
_TITLES = {
    "inference": "Operators, laneway.inference",
    "compile": 'Operators, torch.compile(backend="laneway")',
    "modules": "Modules, laneway.train_step and laneway.inference",
    "optimizers": "Optimizers, laneway.train_step",
}


def short_form(part: str) -> list[pool.Unit]:
    """Every operator once, in a layout that depends on its name; one input of every module; every
    set of options of every optimizer in its default implementation."""
    names = parts.names(part)
    if part == "modules":
        return [pool.Unit(part, n, "float32", 1, tuple(parts.forms(part))) for n in names]
    if part == "optimizers":
        return [pool.Unit(part, n, "float32", None, ("default",)) for n in names]
    return [pool.Unit(part, n, "float32", 1, parts.forms_for(part, n), once=True) for n in names]


def page(rows: dict[str, list[Row]]) -> str:
    """The page's text of the rows by part."""
    return "".join([_INTRODUCTION, *(_section(part, found) for part, found in rows.items())])


def _section(part: str, rows: list[Row]) -> str:
    lines = [f"\n## {_TITLES[part]}\n\n"]
    counts = [(kind, [r for r in rows if r.outcome.kind == kind]) for kind in outcomes.CLASSES]
    counted = ", ".join(f"{len(found)} {kind}" for kind, found in counts if found)
    lines.append(f"{len(rows)} cases: {counted}.\n")
    told = [(kind, found) for kind, found in counts if found and kind != outcomes.EQUAL]
    if told:
        lines.append("\n| outcome | of |\n| --- | --- |\n")
    for kind, found in told:
        by_words: dict[str, dict[str, None]] = {}
        for row in found:
            words = _ZERO_ELEMENT.sub("diagonal element N is zero", row.outcome.message)
            if row.case.name in exclusions.EXCLUDED:
                words += f" ({exclusions.EXCLUDED[row.case.name]})"
            by_words.setdefault(words, {})[row.case.name] = None
        for words, names in sorted(by_words.items(), key=lambda entry: (-len(entry[1]), entry[0])):
            lines.append(f"| {_cell(f'{kind}: {words}')} | {', '.join(names)} |\n")
    return "".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

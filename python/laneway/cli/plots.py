"""Plots of a simulation as SVG, from its lines of jobs and its timeline: completion times, waits,
slowdowns, makespan and fairness of each policy, lanes and memory in use over time. Standard
library only."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Sequence
from html import escape

Line = dict[str, str]
Level = tuple[float, float, float]  # from, to, and the mean in between
_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 60
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def draw(lines: Sequence[Line], steps: Sequence[Line], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the plots into the folder, which is made if it is not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = [line for line in lines if line["ended_s"]]
    policies = list(dict.fromkeys(line["policy"] for line in lines))

    def by_policy(value: Callable[[Line], float]) -> dict[str, list[float]]:
        return {p: sorted(value(line) for line in ended if line["policy"] == p) for p in policies}

    slowdowns = by_policy(_slowdown)
    drawn = {
        "jct.svg": _distribution(
            "Job completion time", "seconds", by_policy(lambda line: float(line["jct_s"]))
        ),
        "wait.svg": _distribution(
            "Waiting with work", "seconds", by_policy(lambda line: float(line["wait_s"]))
        ),
        "slowdown.svg": _distribution("Slowdown", "completion time / time computing", slowdowns),
        "makespan.svg": _bars(
            "Makespan, in seconds",
            {p: _makespan([line for line in ended if line["policy"] == p]) for p in policies},
        ),
        "fairness.svg": _bars(
            "Fairness: Jain's index of the jobs' progress (1: all are slowed down alike)",
            {p: _jain([1 / s for s in ascending]) for p, ascending in slowdowns.items()},
        ),
        "utilisation.svg": _over_time(
            "Lanes in use", "lanes", {p: _levels(steps, p, "busy_lanes", 1) for p in policies}
        ),
        "memory.svg": _over_time(
            "Memory in use", "GiB", {p: _levels(steps, p, "memory_bytes", 2**30) for p in policies}
        ),
    }
    paths = []
    for name, text in drawn.items():
        path = folder / name
        path.write_text(text)
        paths.append(path)
    return paths


def _slowdown(line: Line) -> float:
    busy = float(line["busy_s"])
    return float(line["jct_s"]) / busy if busy > 0 else 1.0


def _makespan(lines: Sequence[Line]) -> float:
    if not lines:
        return 0.0
    first = min(float(line["submit_s"]) for line in lines)
    return max(float(line["ended_s"]) for line in lines) - first


def _jain(values: Sequence[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else 0.0


def _levels(steps: Sequence[Line], policy: str, column: str, unit: float) -> list[Level]:
    """From, to and the mean in between, of all devices together. Steps of a device are equally long
    but for its last one, and their lengths are powers of two, so they nest in the longest."""
    own = [
        (float(step["from_s"]), float(step["to_s"]), float(step[column]) / unit)
        for step in steps
        if step["policy"] == policy
    ]
    if not own:
        return []
    width = max(1e-9, *(to - begin for begin, to, _ in own))
    end = max(to for _, to, _ in own)
    sums: dict[int, float] = {}
    for begin, to, value in own:
        place = int(begin / width + 1e-6)
        sums[place] = sums.get(place, 0.0) + value * (to - begin)
    found = []
    for place, total in sorted(sums.items()):
        begin, to = place * width, min((place + 1) * width, end)
        found.append((begin, to, total / (to - begin)))
    return found


def _over_time(title: str, unit: str, levels: dict[str, list[Level]]) -> str:
    """The level (upwards, from 0) at each second (to the right)."""
    every = [level for of_policy in levels.values() for level in of_policy]
    end = max([to for _, to, _ in every], default=1.0)
    most = max([value for _, _, value in every], default=1.0) or 1.0

    def point(time: float, value: float) -> str:
        x = _LEFT + time / end * (_WIDTH - _LEFT - _RIGHT)
        return f"{x:.1f},{_HEIGHT - _BOTTOM - value / most * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    body = []
    for quarter in range(5):
        y = _HEIGHT - _BOTTOM - quarter / 4 * (_HEIGHT - _TOP - _BOTTOM)
        x = _LEFT + quarter / 4 * (_WIDTH - _LEFT - _RIGHT)
        body.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, "#dddddd"))
        body.append(_text(_LEFT - 8, y + 4, f"{most * quarter / 4:.4g}", "end"))
        body.append(_text(x, _HEIGHT - _BOTTOM + 16, f"{end * quarter / 4:.4g}", "middle"))
    body.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 12, f"seconds ({unit} upwards)", "middle"))
    for index, (policy, of_policy) in enumerate(levels.items()):
        color = _COLORS[index % len(_COLORS)]
        points = [point(time, value) for begin, to, value in of_policy for time in (begin, to)]
        body.append(
            f'<polyline fill="none" stroke="{color}" stroke-width="1" points="{" ".join(points)}"/>'
        )
        body.append(_text(_LEFT + 10, _TOP + 16 * (index + 1), policy, "start", color))
    return _page(title, body)


def _distribution(title: str, unit: str, values: dict[str, list[float]]) -> str:
    """The part of the jobs (upwards) that is at or below a value (to the right, logarithmic)."""
    positive = [value for ascending in values.values() for value in ascending if value > 0]
    least = math.floor(math.log10(min(positive))) if positive else 0
    most = math.ceil(math.log10(max(positive))) if positive else 1
    most = max(most, least + 1)
    least = max(least, most - 8)  # what is below stands at the left edge

    def x(value: float) -> float:
        place = math.log10(value) if value > 0 else least
        place = min(max(place, least), most)
        return _LEFT + (place - least) / (most - least) * (_WIDTH - _LEFT - _RIGHT)

    def y(part: float) -> float:
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    body = []
    for power in range(least, most + 1):
        body.append(_line(x(10.0**power), y(0), x(10.0**power), y(1), "#dddddd"))
        body.append(_text(x(10.0**power), _HEIGHT - _BOTTOM + 16, f"1e{power}", "middle"))
    for quarter in range(5):
        body.append(_line(_LEFT, y(quarter / 4), _WIDTH - _RIGHT, y(quarter / 4), "#dddddd"))
        body.append(_text(_LEFT - 8, y(quarter / 4) + 4, f"{quarter / 4:g}", "end"))
    body.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 12, f"{unit} (part of the jobs)", "middle"))
    for index, (policy, ascending) in enumerate(values.items()):
        color = _COLORS[index % len(_COLORS)]
        if ascending:
            points = [f"{x(ascending[0]):.1f},{y(0):.1f}"]
            for place, value in enumerate(ascending):
                points.append(f"{x(value):.1f},{y(place / len(ascending)):.1f}")
                points.append(f"{x(value):.1f},{y((place + 1) / len(ascending)):.1f}")
            body.append(
                f'<polyline fill="none" stroke="{color}" stroke-width="2" '
                f'points="{" ".join(points)}"/>'
            )
        body.append(_text(_LEFT + 10, _TOP + 16 * (index + 1), policy, "start", color))
    return _page(title, body)


def _bars(title: str, values: dict[str, float]) -> str:
    most = max([*values.values(), 1e-9])
    high = (_HEIGHT - _TOP - _BOTTOM) / max(len(values), 1)
    body = []
    for index, (policy, value) in enumerate(values.items()):
        top = _TOP + index * high
        width = value / most * (_WIDTH - _LEFT - _RIGHT)
        body.append(
            f'<rect x="{_LEFT}" y="{top:.1f}" width="{width:.1f}" height="{high * 0.7:.1f}" '
            f'fill="{_COLORS[index % len(_COLORS)]}" fill-opacity="0.5"/>'
        )
        body.append(_text(_LEFT + 8, top + high * 0.4, f"{policy}: {value:.3f}", "start"))
    return _page(title, body)


def _line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def _text(x: float, y: float, text: str, anchor: str, color: str = "#000000") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )


def _page(title: str, body: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">'
    )
    back = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    name = f'<text x="{_WIDTH / 2}" y="24" text-anchor="middle" font-size="16">{escape(title)}'
    return "\n".join([head, back, f"{name}</text>", *body, "</svg>", ""])

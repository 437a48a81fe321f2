"""How the benches open Laneway on a device: the names of its options, in one place."""

from __future__ import annotations

from typing import Any

from ..models import Workload, pool_for

# What libraries may take for one operator (limits::kMaxLibraryWorkspace).
WORKSPACES = 1 << 30
# Activations beyond what pool_for allows, by model.
LARGE = {"gpt_large": 8 << 30}


def pool_on_device(work: Workload) -> int:
    """Bytes of pool in which `work` trains on a GPU."""
    return pool_for(work) + WORKSPACES + LARGE.get(work.name, 0)


def embedded(
    device: str,
    pool: int | str,
    lanes: int | None = None,
    lane_sms: int = 0,
    staging: int | None = None,
) -> Any:
    import laneway

    more = {"lane_sms": lane_sms} if lane_sms else {}
    if staging is not None:
        more["staging"] = staging
    return laneway.embedded(pool=pool, lanes=lanes, device=device, **more)


def train_step(
    work: Workload, service: Any, name: str = "", replay: str = "auto", random: str | None = None
) -> Any:
    """The step of `work`; `replay` is "auto", "on" or "off", `random` "own", "shared" or None."""
    import laneway

    more = {} if replay == "auto" else {"replay": replay}
    more |= {} if random is None else {"random": random}
    return laneway.train_step(
        work.model,
        work.loss_fn,
        work.optimizer,
        service=service,
        name=name or work.name,
        **more,
    )


def replay_of(report: dict[str, Any]) -> tuple[int, str]:
    """Of a job's report: how many iterations were replayed, and why something was not recorded; ""
    where nothing was refused."""
    parts = [report, *report.get("graphs", [])]
    told = [part["replay"].get("refused") for part in parts if isinstance(part.get("replay"), dict)]
    reasons = dict.fromkeys(text for text in told if text)
    return sum(g["replayed_count"] for g in report["graphs"]), "; ".join(reasons)


def daemon_words(device: str, lane_sms: int = 0) -> list[str]:
    """What lanewayd is started with."""
    return ["--device", device, *(["--lane-sms", str(lane_sms)] if lane_sms else [])]

"""The command line of the demo."""

from __future__ import annotations

import argparse
import signal
import sys

from laneway.errors import ServiceUnavailable


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description="An MLP (AdamW) and a small CNN (batch-norm, dropout, SGD with momentum) train "
        "on scikit-learn's digits at the same time, in one memory pool, while the MLP's current "
        "weights answer requests. Each is a process of its own and a client of a lanewayd that the "
        "demo starts; a third takes most of the pool, and a fourth like it waits until that has "
        "ended. Afterwards all are trained again by plain PyTorch and compared to the last bit.",
        epilog="Exit codes: 0 all as promised, 1 not, 2 wrong usage, 4 refused by the service, "
        "130 interrupted.",
    )
    parser.add_argument("--pool", default="512MiB", metavar="SIZE", help="(512MiB)")
    parser.add_argument("--policy", default="fifo", metavar="NAME[:key=value…]", help="(fifo)")
    parser.add_argument("--epochs", type=_positive, metavar="N", help="of each job (300 and 30)")
    parser.add_argument("--seconds", type=_seconds, metavar="S", help="train S seconds at most")
    parser.add_argument("--seed", type=int, default=0, help="(0)")
    parser.add_argument(
        "--embedded", action="store_true", help="all in one process, without lanewayd"
    )
    parser.add_argument("--quiet", action="store_true", help="nothing but the result")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 < float(text) < 86_400:
        raise argparse.ArgumentTypeError(f"{text}: more than 0 and less than a day")
    return float(text)


def main(arguments: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to end, it tidies up as well
    try:
        return _show(options)
    except KeyboardInterrupt:
        print("\ndemo: interrupted; the jobs have ended and the pool is closed", file=sys.stderr)
        return 130
    except ServiceUnavailable as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _show(options: argparse.Namespace) -> int:
    # They import torch, so --help need not wait for it.
    from laneway.demo import clients_show, embedded_show, processes

    if options.embedded:
        return embedded_show.EmbeddedShow(options).run()
    if missing := processes.missing_programs():
        print(
            f"demo: not found: {missing}. ./dev build makes them ($LANEWAY_BUILD names a build "
            "elsewhere); --embedded runs all in one process, without a service",
            file=sys.stderr,
        )
        return 1
    return clients_show.ClientsShow(options).run()


if __name__ == "__main__":
    sys.exit(main())

"""The command line of the demo."""

from __future__ import annotations

import argparse
import sys


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description="An MLP (AdamW) and a small CNN (batch-norm, dropout, SGD with momentum) train "
        "on scikit-learn's digits at the same time, in one memory pool, while the MLP's current "
        "weights answer requests. Afterwards both are trained again by plain PyTorch and compared "
        "to the last bit.",
        epilog="Exit codes: 0 all as promised, 1 not, 2 wrong usage, 4 refused by the service, "
        "130 interrupted.",
    )
    parser.add_argument("--pool", default="512MiB", metavar="SIZE", help="(512MiB)")
    parser.add_argument("--policy", default="fifo", metavar="NAME[:key=value…]", help="(fifo)")
    parser.add_argument("--epochs", type=_positive, metavar="N", help="of each job (300 and 30)")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="S", help="stop training after S seconds at the latest"
    )
    parser.add_argument("--seed", type=int, default=0, help="(0)")
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
    try:
        from laneway.demo.show import Show  # imports torch, so --help need not wait for it

        return Show(options).run()
    except KeyboardInterrupt:
        print("\ndemo: interrupted; the jobs have ended and the pool is closed", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Lets tests import the package and the benches from the checkout."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT), str(ROOT / "python")]

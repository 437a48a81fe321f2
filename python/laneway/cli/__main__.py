"""python -m laneway.cli"""

import sys

from laneway.cli.commands import main

sys.exit(main())

"""python -m laneway.cli"""

import sys

from laneway.cli.main import main

sys.exit(main())

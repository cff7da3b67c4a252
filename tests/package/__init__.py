"""What is installed with the program: documents, completions, service.

    WINNOW=PROGRAM WINNOW_BUILD=FOLDER python3 -m unittest discover \
        -s tests/package -t . -p '*_test.py'
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))

WINNOW = os.environ.get("WINNOW", str(ROOT / "build/winnow"))
BUILD = Path(os.environ.get("WINNOW_BUILD", ROOT / "build/release"))
MADE = BUILD / "packaging"  # by the target `documents`

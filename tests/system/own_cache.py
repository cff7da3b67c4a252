"""Whatever a test starts remembers files in a folder that goes with the test,
not in its user's own."""

import atexit
import os
import shutil
import tempfile

FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = FOLDER

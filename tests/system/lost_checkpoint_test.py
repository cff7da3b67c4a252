#!/usr/bin/env python3
"""A checkpoint that is cut off while a server reads it.

    lost_checkpoint_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from serve_process import MODEL, Server

WINNOW = ""


class LostCheckpointTest(unittest.TestCase):
    def test_the_server_ends_and_names_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            shutil.copytree(MODEL, model)
            # As stored, so that the weights are read where they are mapped.
            server = Server(WINNOW, "--dtype", "bfloat16", model=str(model))
            server.complete(prompt="the", max_tokens=1)
            weights = model / "model.safetensors"
            os.truncate(weights, 0)
            with self.assertRaises((OSError, http.client.HTTPException)):
                server.complete(prompt="the", max_tokens=1)
            self.assertEqual(server.wait(), 1)
            told = [line for line in server.lines if str(weights) in line]
            self.assertEqual(len(told), 1, server.lines)
            self.assertRegex(told[0], f"^winnow: {weights}: ended while ")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()

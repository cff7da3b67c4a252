"""The function of a small checkpoint, in a checkpoint of a larger shape."""

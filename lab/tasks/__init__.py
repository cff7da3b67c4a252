"""Retrieval tasks in plain words: one grammar for training and testing."""

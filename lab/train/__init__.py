"""Training of the lab model; needs PyTorch."""

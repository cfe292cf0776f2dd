"""Recordings made on real GPUs, shipped with the package."""

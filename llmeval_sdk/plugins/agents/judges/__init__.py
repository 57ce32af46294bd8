"""Judges of a run: what an agent did, step by step. One small file each."""

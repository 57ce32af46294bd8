"""Evaluated rows and what they add up to: in memory, in a file, merged."""

"""Us and our peers: the same calls, in the same run, each in an environment of its own.

python -m benchmarks.peers
"""

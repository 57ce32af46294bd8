"""Risk that learns: a risk score is re-fitted on what judges and people said of this app's records.

`background.make` returns what a pipeline needs of it. The core finds it through the registry and
works without it: then the shipped weights apply.
"""

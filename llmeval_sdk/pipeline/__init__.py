"""Takes finished spans, evaluates them in the background and delivers them to the exporters.

It has a worker thread, one thread for judges and one for each exporter. Heuristics of the app run
on threads beside the worker.
"""

"""Free scores against an expected answer or expected documents; they run only where they are named.

A data set with answers gets useful figures from them without a paid judge.
"""

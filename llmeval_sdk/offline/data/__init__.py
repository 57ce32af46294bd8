"""Rows of any kind and shape -> Records that know where they stand."""

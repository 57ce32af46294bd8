"""Spans that others made, to be scored like our own: what an instrumented app adds in two lines."""

"""Scores the spans that other instrumentations make; an instrumented app adds two lines for it."""

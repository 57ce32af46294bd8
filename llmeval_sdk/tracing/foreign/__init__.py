"""Spans that other libraries made: what their attributes and messages say, read into ours."""

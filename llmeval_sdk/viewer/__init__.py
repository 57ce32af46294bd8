"""Web pages over the embedded store."""

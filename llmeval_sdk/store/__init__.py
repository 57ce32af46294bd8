"""The embedded store: one SQLite file that several processes write and anyone may read."""

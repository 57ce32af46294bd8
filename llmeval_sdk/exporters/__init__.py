"""Where spans and evaluations go: one file or folder per destination."""

"""Sessions whose turns arrive at several hosts: they meet in Redis, and one host evaluates each."""

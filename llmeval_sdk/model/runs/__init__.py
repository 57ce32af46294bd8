"""Runs of agents: chat messages and spans, read once for all the scores that are made of them."""

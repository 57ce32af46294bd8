"""LLM judges: one small file each. They know the `LLM` protocol and no client."""

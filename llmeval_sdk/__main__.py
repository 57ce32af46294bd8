"""``python -m llmeval_sdk`` is the command ``llmeval``."""

from llmeval_sdk.cli import main


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m llmeval_sdk.plugins.demo``."""

from llmeval_sdk.plugins.demo.run import main


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m llmeval_sdk.demo``."""

from llmeval_sdk.demo.run import main


if __name__ == "__main__":
    raise SystemExit(main())

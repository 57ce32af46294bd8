"""What can be left out, each plugin whole in its own folder; the core runs without any of them."""

"""What all hosts share through a Redis: one budget, and what is known of models that are down."""

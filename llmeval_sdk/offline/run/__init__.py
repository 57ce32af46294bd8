"""Records -> evaluated rows: evaluators are chosen, judges and the app are asked."""

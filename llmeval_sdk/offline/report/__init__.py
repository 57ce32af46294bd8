"""What a person or a CI reads of the results."""

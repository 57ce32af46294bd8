"""One reader of text and values: folding, kinds of values, places in passages, terminals."""

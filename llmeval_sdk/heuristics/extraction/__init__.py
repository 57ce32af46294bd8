"""How likely an extracted value is wrong, for nothing: `extraction_risk` and `abstention_risk`.

Each module here holds a few small features of one kind, every one in 0..1 and high where a value is
more often wrong; ``data/extraction.json`` holds what each weighs.
"""

"""Risk scores that cost nothing: which answers to doubt, and which retrieved contexts.

`groundedness_risk` holds a response against its context, `retrieval_risk` a context against its
question. Both are plain arithmetic over words and numbers, with small trained models that ship as
data; ``benchmarks/quality/risk_train.py`` makes those and names what they were fitted on.
"""

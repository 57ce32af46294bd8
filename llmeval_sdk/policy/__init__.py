"""Pure decisions about paid judges: may this one run, why, and with what chance.

No I/O and no threads here; clocks and the shared ledger are passed in. `gate` composes what can be
decided from a record (applicable, escalated, sampled). `evaluation` asks `backoff` (concurrency and
breaker) and `keeper` (the budget) afterwards, for each call of a judge model.
"""

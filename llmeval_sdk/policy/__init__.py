"""Pure decisions about paid judges: may this one run, why, and with what chance.

No I/O and no threads here; clocks and the shared ledger are passed in. `gate` composes what can be
decided from a record (applicable, escalated, sampled); `cache`, `budget`, `breaker` and
`concurrency` are asked by the pipeline afterwards, in that order.
"""

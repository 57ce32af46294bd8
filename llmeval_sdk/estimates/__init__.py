"""Pure statistics: what the judged records say about all of the traffic.

No I/O and no knowledge of where records come from. `mean` needs nothing but Python; `powered` uses
ppi-python where it is installed; `funnel` is the arithmetic of who was judged and why not.
"""

"""Whether a text has a value: as it stands, normalised, as the same number or date, or nearly.

`support` answers that, and each of the other files knows one kind of value. Every regular
expression here takes time linear in the length of the text, whatever the text is.
"""

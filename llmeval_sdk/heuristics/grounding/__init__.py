"""Is a value found in a text: as it stands, normalised, as the same number or date, or nearly.

`support` answers it; the other files each know one kind of value. Every regular expression here
matches in time linear in the text, whatever the text is.
"""

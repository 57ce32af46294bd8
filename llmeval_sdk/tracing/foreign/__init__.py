"""Spans that other libraries made, read into ours: live, in `evaluate` and in `import` alike.

`conventions` has a table of attribute names for each convention, `messages` the shapes of chats,
`reading` what a span and a trace of them say, and `files` the forms in which files hold them.
"""

"""The demo app: field extraction over the documents of the installed distributions."""

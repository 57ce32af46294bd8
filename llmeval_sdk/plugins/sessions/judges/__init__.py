"""Judges of a conversation as a whole: one small file each."""

"""Free scores of a conversation: one small file each."""

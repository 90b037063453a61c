"""The IR: ops, types and attributes of every level, and their text."""

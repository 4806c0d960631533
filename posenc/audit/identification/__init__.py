"""What rotation, bias or window is this? Told from a function, or from numbers before and after.

`posenc.audit.identify` is at home in `asked`; a name of this room is imported from its file.
"""

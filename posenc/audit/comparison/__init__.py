"""Two implementations of one model: where do they differ, in words?

`posenc.audit.compare` is at home in `asked`; a name of this room is imported from its file.
"""

"""One transformer for every encoding: the model, how it continues a text, its memory, and its files."""

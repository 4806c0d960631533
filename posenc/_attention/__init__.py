"""Attention with position in it: the six doors, the call, and the cache."""

"""The schemes: one file for each, and what they share. `from posenc import RoPE` finds them too."""

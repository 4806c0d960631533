"""Image models on a grid of patches: what rows and columns do to attention."""

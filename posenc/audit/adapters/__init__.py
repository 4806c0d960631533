"""How the audit calls a model: tokens, positions, mask and state in, logits out."""

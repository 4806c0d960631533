"""Everything of the audit that knows transformers; imported late, so that the core needs torch alone."""

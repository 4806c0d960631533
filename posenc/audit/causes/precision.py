"""Casts: partners alone, which decide what a shift means."""

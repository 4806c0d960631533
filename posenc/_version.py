"""The version of the package and of the book. CONTRIBUTING.md says which change raises which number."""

__version__ = "0.2.0"

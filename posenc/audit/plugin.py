"""The plugin of pytest, under its former name. What pytest loads by itself is `_posenc_pytest`, which needs no torch.

It stays for environments that were installed before, and for `-p posenc.audit.plugin`.
"""

from __future__ import annotations

from _posenc_pytest import posenc_audit

__all__ = ["posenc_audit"]

"""Configurations: what a model's config.json says of positions, read in one way, without building the model.

`read_config` reads a file, and `RoPE.from_config` and the audit take what it found. `fields` holds the checks of what
is in a file, `parameters` and `rotation` what rotates, `layers` which layers, `scheme` all other schemes, `conflicts`
the fields that contradict each other, and `tables` what the classes of transformers do where a file is silent. Standard
library only, so that a configuration can be read where neither torch nor transformers is installed.
"""

from posenc.configs.catalogue import published
from posenc.configs.engines import Form, Settings, extended, settings
from posenc.configs.layers import Layer
from posenc.configs.reader import At, Reading, read_config
from posenc.configs.remarks import Remark, Unreadable, apply
from posenc.configs.rotation import Rotation
from posenc.configs.scheme import PositionScale

__all__ = [
    "At",
    "Form",
    "Layer",
    "PositionScale",
    "Reading",
    "Remark",
    "Rotation",
    "Settings",
    "Unreadable",
    "apply",
    "extended",
    "published",
    "read_config",
    "settings",
]

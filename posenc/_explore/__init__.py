"""`ipywidgets.interact` that survives a static page: a kernel drives the sliders where there is one, the exported
torch function where there is none."""

from posenc._explore.controls import logarithmic
from posenc._explore.panel import Panel, explore

__all__ = ["Panel", "explore", "logarithmic"]

"""``ipywidgets.interact`` that survives a static page: a kernel drives the sliders where there is one, the exported
torch function where there is none."""

from .controls import logarithmic
from .panel import Panel, explore
from .views import Heatmap, Lines, Plane, Readout

__all__ = ["Heatmap", "Lines", "Panel", "Plane", "Readout", "explore", "logarithmic"]

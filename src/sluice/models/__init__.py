"""Models: what people bring (`Model`), what it gets (`Frame`), what it gives (`Detections`), and how it is loaded."""

# GStreamer first, and then cv2 bound to the right unwinder: see `sluice.runtimes.unwinding`.
import sluice.contract.formats  # noqa: F401
from sluice.runtimes.unwinding import import_compiled

import_compiled("cv2")

"""Models: what people bring (`Model`), what it gets (`Frame`), what it gives (`Detections`), and how it is loaded."""

"""What GStreamer's Python plugin loader scans: one file per element in ``python/``, which registers it.

The loader runs the system's Python, whatever environment Sluice is installed in, and keeps the result of its scan even
when that failed. Therefore these files, and the element modules they import, import nothing but gi and the standard
library. `sluice.app.env` writes copies that also know the environment's site-packages.
"""

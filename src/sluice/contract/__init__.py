"""The contract between elements: metadata (``NvDsBatchMeta``) and pixels (``NvBufSurface``), read and written.

The modules are imported one by one; this package imports none of them, so that it costs nothing at plugin scan time.
"""

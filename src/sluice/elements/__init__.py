"""Sluice's GStreamer elements. Importing this package imports none of them; `register_all` does."""

import importlib

ELEMENTS = {
    "sluicemux": "sluice.elements.mux:SluiceMux",
    "sluiceinfer": "sluice.elements.infer:SluiceInfer",
    "sluicetracker": "sluice.elements.tracker:SluiceTracker",
    "sluiceanalytics": "sluice.elements.analytics:SluiceAnalytics",
    "sluicevlm": "sluice.elements.vlm:SluiceVlm",
    "sluiceindex": "sluice.elements.index:SluiceIndex",
    "sluiceosd": "sluice.elements.osd:SluiceOsd",
    "sluicehost": "sluice.elements.host_element:SluiceHost",
    "sluicetiler": "sluice.elements.tiler:SluiceTiler",
    "sluicedemux": "sluice.elements.demux:SluiceDemux",
    "sluiceanalyticsbridge": "sluice.elements.analyticsbridge:SluiceAnalyticsBridge",
    "sluicemetafile": "sluice.elements.metafile:SluiceMetaFile",
    "sluicemsgconv": "sluice.elements.msgconv:SluiceMsgConv",
    "sluicemsgbroker": "sluice.elements.msgbroker:SluiceMsgBroker",
}
"""Element name to ``module:Class``; the plugin loader's files name the same classes (checked by a test)."""

_registered: set[str] = set()


def register(name: str) -> None:
    """Register one element of `ELEMENTS` in this process; without effect when it is registered already here.

    Raises:
        SluiceError: GStreamer refused it.
    """
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    from sluice.errors import SluiceError

    Gst.init(None)
    if name in _registered:
        return
    module, _, class_name = ELEMENTS[name].partition(":")
    if not Gst.Element.register(None, name, Gst.Rank.NONE, getattr(importlib.import_module(module), class_name)):
        raise SluiceError(f"GStreamer did not register the element {name} from {ELEMENTS[name]}")
    _registered.add(name)


def register_all() -> None:
    """Register every element of `ELEMENTS` in this process, so that no plugin path is needed; idempotent."""
    for name in ELEMENTS:
        register(name)

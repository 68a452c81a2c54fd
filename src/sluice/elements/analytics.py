"""``sluiceanalytics``: counts tracked objects at lines and in regions, in the place of nvdsanalytics.

It reads nvdsanalytics' configuration files and writes its user metas, and besides them JSON texts that
``sluicemsgconv`` takes into its messages. Pixels are not touched.

Imports gi and the standard library only; numpy, the contract and the analytics are imported at NULL→READY.
"""

from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import ANY_FRAMES, pad_template
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.analytics_frames import Counters, FrameAnalysis


class SluiceAnalytics(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluiceanalytics`` for its properties.

    Unlike nvdsanalytics it counts an object at a line again when the object came back over it and crosses once more,
    and an object without an id disturbs nothing. A stream's number is its frames' ``source_id``. A new configuration
    (the event ``nv-analytics-reload_config-update``) starts all counts at 0; one that is wrong is refused with a
    warning, and the old one stays.
    """

    __gtype_name__ = "SluiceAnalytics"
    __gstmetadata__ = (
        "Sluice analytics",
        "Filter/Metadata",
        "Counts tracked objects at lines and in regions, times them, and names their directions",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, ANY_FRAMES),
        pad_template("src", Gst.PadDirection.SRC, ANY_FRAMES),
    )

    config_file = GObject.Property(
        type=str, default="", nick="config-file", blurb="A configuration file of nvdsanalytics; needed"
    )
    enable = GObject.Property(type=bool, default=True, blurb="Whether to do anything; also needs enable=1 in the file")
    unique_id = GObject.Property(
        type=GObject.TYPE_UINT, default=15, nick="unique-id", blurb="Written to the user metas, to tell makers apart"
    )
    hysteresis = GObject.Property(
        type=float,
        default=12.0,
        minimum=0.0,
        maximum=10000.0,
        blurb="How far behind a line, in pixels of config-width by config-height, an object must go back before it is "
        "counted again, so that a box that trembles on the line counts once",
    )
    json = GObject.Property(
        type=bool, default=True, blurb="Also attach the findings as JSON texts, which messages carry under user"
    )

    def __init__(self) -> None:
        super().__init__()
        self._analysis: FrameAnalysis | None = None
        self._counters: Counters | None = None

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        counters = self._counters
        numbers = {} if counters is None else vars(counters)
        return events.numbers_structure("sluiceanalytics-stats", {"frames": 0, "crossings": 0, **numbers})

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: frames (analysed), crossings (of all lines)",
    )

    def start(self) -> None:
        from sluice.analytics import read_config
        from sluice.contract import provider
        from sluice.elements.analytics_frames import Counters, FrameAnalysis

        if not self.config_file:
            raise ConfigurationError("config-file is not set; sluiceanalytics needs a configuration of nvdsanalytics")
        provider.provider()
        self._counters = Counters()
        self._analysis = FrameAnalysis(
            read_config(self.config_file),
            self._counters,
            unique_id=self.unique_id,
            hysteresis=self.hysteresis,
            json=self.json,
        )

    def stop(self) -> None:
        self._analysis = None

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._analysis is not None:
            self._analysis.set_caps(caps)

    def on_event(self, event: Gst.Event) -> None:
        analysis = self._analysis
        if analysis is None:
            return
        if event.type == Gst.EventType.FLUSH_STOP:
            analysis.jump()
        elif (said := events.parse_stream_event(event)) is not None:
            if said.kind == events.PAD_DELETED:
                analysis.remove(said.source_id)
            elif said.kind in (events.STREAM_RESET, events.STREAM_EOS):
                analysis.jump(said.source_id)
        elif events.event_type(event) == events.ANALYTICS_RELOAD_CONFIG:
            fields = events.parse_control_event(event) or {}
            self._reload(analysis, fields.get("config_file_path") or self.config_file)

    def _reload(self, analysis: "FrameAnalysis", path: str) -> None:
        from sluice.analytics import read_config

        try:
            analysis.configure(read_config(path))
        except ConfigurationError as error:
            self.warn(f"the configuration was not changed: {error}")

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._analysis is not None
        if self.enable:
            self._analysis.analyse(buffer)
        return True

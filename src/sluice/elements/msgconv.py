"""``sluicemsgconv``: turns the metadata of frames into messages and attaches them, in the place of nvmsgconv.

The schemas are Sluice's own (``sluice.messages.schema``) and DeepStream's (``sluice.messages.deepstream``). Messages
travel as user metadata of NVIDIA's payload type, so that ``sluicemsgbroker`` or nvmsgbroker behind can send them.
Pixels are not touched.

Imports gi and the standard library only; numpy and the contract are imported at NULL→READY.
"""

from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements.base import InPlaceElement
from sluice.elements.guard import guarded
from sluice.elements.msgconv_properties import DEFAULTS, GPROPERTIES, SLUICE, check, read_members
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.msgconv_frames import Conversion, Maker, SluiceMessages
    from sluice.messages.deepstream_config import Configuration
    from sluice.messages.payload_files import PayloadDump


class SluiceMsgConv(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicemsgconv`` for its properties.

    Unlike nvmsgconv, which by default sends DeepStream's full schema for one frame in thirty, it makes a message of
    Sluice's own schema for every frame.
    """

    __gtype_name__ = "SluiceMsgConv"
    __gproperties__ = GPROPERTIES
    __gstmetadata__ = (
        "Sluice message converter",
        "Filter/Metadata",
        "Makes messages of frames, objects or event messages and attaches them to the frames",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
    )

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Any] = dict(DEFAULTS)
        self._conversion: Conversion | None = None
        self._own: SluiceMessages | None = None
        self._dump: PayloadDump | None = None

    @guarded(failure=None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        return self._stats() if spec.name == "stats" else self._values[spec.name]

    @guarded(failure=None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        """Set a property; ``stream-members`` is checked, and taken over, at once."""
        if spec.name == "stream-members":
            members = read_members(value)
            self._set_members(members)
        self._values[spec.name] = int(value) if spec.name == "payload-type" else value

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        structure = Gst.Structure.new_empty("sluicemsgconv-stats")
        counted = vars(self._conversion.counters) if self._conversion is not None else {}
        for name in ("frames", "messages", "skipped"):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, counted.get(name, 0)))
        return structure

    def start(self) -> None:
        from sluice.elements.msgconv_frames import Conversion

        values = self._values
        check(values)
        ours = values["payload-type"] == SLUICE
        configuration = self._read_configuration()
        self._own = self._sluice_messages(configuration) if ours else None
        maker = self._own.messages if self._own is not None else self._deepstream_maker(configuration)
        if values["debug-payload-dir"]:
            from sluice.messages.payload_files import PayloadDump

            self._dump = PayloadDump(
                values["debug-payload-dir"], lambda error: self.warn(f"debug-payload-dir: {error}")
            )
        self._conversion = Conversion(
            maker,
            frame_interval=values["frame-interval"] if ours or values["msg2p-newapi"] else 1,
            component_id=values["comp-id"],
            needs_sizes=ours,
            on_made=self._dump.put if self._dump is not None else None,
            plain=ours and values["per"] == "frame" and not values["masks"] and configuration is None,
            empty_frames=values["empty-frames"] == "emit",
        )
        self._set_members(read_members(values["stream-members"]))

    def stop(self) -> None:
        if self._dump is not None:
            self._dump.close()
            self._dump = None

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._conversion is not None:
            self._conversion.set_caps(caps)

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._conversion is not None
        self._conversion.convert(buffer)
        return True

    def _read_configuration(self) -> "Configuration | None":
        from sluice.messages.deepstream import PayloadType
        from sluice.messages.deepstream_config import read_configuration

        values = self._values
        if not values["config"]:
            return None
        # A table is not for those schemas of DeepStream's that nvmsgconv refuses it for.
        configuration = read_configuration(values["config"], table=values["payload-type"] in (PayloadType.FULL, SLUICE))
        if configuration.warnings and values["strict-config"]:
            raise ConfigurationError("; ".join(configuration.warnings))
        for text in configuration.warnings:
            self.warn(text)
        return configuration

    def _set_members(self, members: dict[int, dict[str, Any]]) -> None:
        for taker in (self._conversion, self._own):
            if taker is not None:
                taker.set_members(members)

    def _sluice_messages(self, configuration: "Configuration | None") -> "SluiceMessages":
        from sluice.elements.msgconv_frames import SluiceMessages
        from sluice.messages import Per

        return SluiceMessages(
            Per(self._values["per"]),
            empty_frames=self._values["empty-frames"] == "emit",
            embeddings=self._values["embeddings"],
            masks=self._values["masks"],
            configuration=configuration,
        )

    def _deepstream_maker(self, configuration: "Configuration | None") -> "Maker":
        from sluice.elements.msgconv_frames import deepstream_maker
        from sluice.messages.deepstream import DeepStreamMessages, PayloadType, Settings

        settings = Settings(
            PayloadType(self._values["payload-type"]),
            new_api=self._values["msg2p-newapi"],
            component_id=self._values["comp-id"],
            dummy_payload=self._values["dummy-payload"],
            empty_frames=self._values["empty-frames"] == "emit",
        )
        return deepstream_maker(DeepStreamMessages(settings, configuration, self.warn))

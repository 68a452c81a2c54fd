"""The outputs of all processes as one: what `sluice.app.serve.engine.Pictures` describes.

There is no view of all streams: no process has them all.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from sluice.app.serve.processes.channel import ProcessDownError
from sluice.app.serve.processes.crew import Crew, Member
from sluice.app.serve.processes.engine import ask_all
from sluice.errors import SluiceError


@dataclass(frozen=True)
class _Look:
    """Who looks at a stream, in the process that it was in then."""

    name: str
    member: Member
    callback: Callable[[bytes], None]


class SharedPictures:
    """Pictures and files of streams in other processes. Every method may wait, and may be called by any thread."""

    def __init__(self, crew: Crew) -> None:
        """Take over processes that are not started yet."""
        self._crew = crew
        self._keys = itertools.count()
        self._looks: dict[int, _Look] = {}
        crew.shown = self._show
        crew.joined = self._look_again

    @property
    def webrtc_available(self) -> bool:
        """Whether WebRTC can be used here: in all processes or in none."""
        return bool(self._crew.facts.get("webrtc_available"))

    def snapshot(self, name: str) -> bytes | None:
        """Return the newest picture of a stream as JPEG; None while there is none."""
        picture: bytes | None = self._member(name).call("snapshot", name)
        return picture

    def subscribe_mjpeg(self, name: str, callback: Callable[[bytes], None]) -> Callable[[], None]:
        """Have each picture passed to a function that returns at once; return what ends it.

        It goes on where the stream's process dies and another takes its place, and begins then where there is none now.
        """
        key, member = next(self._keys), self._member(name)
        self._looks[key] = _Look(name, member, callback)
        try:
            member.call("look", key, name)
        except ProcessDownError:
            pass
        except BaseException:
            del self._looks[key]
            raise

        def end() -> None:
            if self._looks.pop(key, None) is not None:
                with contextlib.suppress(SluiceError):  # gone, and the subscription with it
                    member.call("look_away", key)

        return end

    def names(self) -> list[str]:
        """Return what there are pictures of: the streams."""
        return [entry.name for entry in self._crew.roster.all()]

    def clip(self, name: str, reason: str = "request") -> None:
        """Write a clip around this moment."""
        self._member(name).call("clip", name, reason)

    def enable(self, name: str, output: str, on: bool) -> None:
        """Switch an output of a stream, also of the process that takes the place of its present one."""
        entry = self._crew.roster.get(name)
        entry.member.call("enable", name, output, on)
        entry.switches[output] = on

    def rtsp_url(self, name: str) -> str | None:
        """Return where a stream can be viewed by RTSP: each process has a port of its own."""
        url: str | None = self._member(name).call("rtsp_url", name)
        return url

    def stats(self) -> dict[str, dict[str, int]]:
        """Return what was made of each stream, of those whose process answers."""
        return {
            name: counts for found in ask_all(self._crew, "stats").values() for name, counts in (found or {}).items()
        }

    def webrtc_answer(self, name: str, offer: str) -> tuple[str, str]:
        """Begin a WebRTC session; return its id and the answer, with all candidates."""
        member = self._member(name)
        session, answer = member.call("webrtc_answer", name, offer)
        return f"{member.number}-{session}", answer

    def webrtc_close(self, session: str) -> None:
        """End a session; without effect where it has ended, or its process has."""
        number, _, own = session.partition("-")
        for member in self._crew.members:
            if str(member.number) == number and member.worker is not None:
                member.call("webrtc_close", own)

    def _member(self, name: str) -> Member:
        return self._crew.roster.get(name).member

    def _show(self, key: int, picture: bytes) -> None:
        look = self._looks.get(key)
        if look is not None:
            look.callback(picture)

    def _look_again(self, member: Member) -> None:
        """Have pictures come from a new process to those who looked at streams of the old one."""
        for key, look in list(self._looks.items()):
            if look.member is member:
                with contextlib.suppress(SluiceError):  # the stream was removed meanwhile
                    member.call("look", key, look.name)

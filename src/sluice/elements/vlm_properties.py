"""The properties of ``sluicevlm``. Imports gi and the standard library only: it is read when GStreamer scans."""

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

POLICIES = ("newest", "oldest", "wait")

_READY = GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_READY)
_PLAYING = GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_PLAYING)
_READABLE = GObject.ParamFlags.READABLE
_INT = GLib.MAXINT32

Description = tuple[Any, ...]


def _text(nick: str, blurb: str, default: str | None = None, flags: Any = _READY) -> Description:
    return (str, nick, blurb, default, flags)


def _number(nick: str, blurb: str, least: int, most: int, default: int, flags: Any = _READY) -> Description:
    return (GObject.TYPE_UINT, nick, blurb, least, most, default, flags)


def _seconds(nick: str, blurb: str, default: float, flags: Any = _READY, most: float = 1e6) -> Description:
    return (float, nick, blurb, 0.0, most, default, flags)


SELECTION: dict[str, Description] = {
    "prompt": _text(
        "Prompt",
        "What the model is asked; {objects}, {count}, {count:person}, {labels}, {name}, {stream}, {time}, {pts}, "
        "{duration}, {frames} and {cause} are filled in for each segment. Default: to describe what happens",
        None,
        _PLAYING,
    ),
    "every": _seconds("Every", "Seconds from one segment to the next; 0: none by time", 10.0, _PLAYING),
    "frames": _number("Frames", "Pictures per segment", 1, 64, 1, _PLAYING),
    "overlap": _number("Overlap", "How many of them are also the last of the segment before", 0, 63, 0, _PLAYING),
    "spacing": _seconds(
        "Spacing",
        "Seconds between the pictures of a segment; 0: so that segments follow each other without a gap (1 second "
        "where every is 0)",
        0.0,
        _PLAYING,
    ),
    "trigger": _text(
        "Trigger",
        "What begins a segment besides: object:LABEL when an object of that class appears, line:NAME when one crosses "
        "a line of sluiceanalytics; several between semicolons, * for any",
        None,
        _PLAYING,
    ),
    "cooldown": _seconds(
        "Cooldown", "Seconds after a triggered segment began in which no trigger begins another", 1.0, _PLAYING
    ),
    "answer-mode": _text(
        "Answer mode",
        "What an answer must be: text, json, labels, or auto: labels or json where labels or a schema are given",
        "auto",
        _PLAYING,
    ),
    "labels": _text(
        "Labels", "The answer is one of these, between semicolons, as in empty;half full;full", None, _PLAYING
    ),
    "schema-file": _text("Schema file", "File with the JSON Schema that the answer must fit", None, _PLAYING),
}
"""What each stream may have of its own, in config-file. They may be set at any time, for the segments from then on."""

GPROPERTIES: dict[str, Description] = {
    "backend": _text(
        "Back end",
        "Who answers: the URL of an OpenAI-compatible endpoint (http://host:8000/v1), transformers, vllm, "
        "package.module:Class or file.py:Class with answer(images, prompt) -> str; needed",
    ),
    "model": _text("Model", "Name of the endpoint's model; a folder or a name of the Hugging Face hub for the others"),
    "system-prompt": _text("System prompt", "Said to the model before each question"),
    **SELECTION,
    "config-file": _text(
        "Configuration file", "YAML file with these settings, and under streams those of single streams", None, _PLAYING
    ),
    "names": _text("Names", "Names of the streams, as in 0=gate;1=yard; default: their stream ids", None, _PLAYING),
    "policy": _text(
        "Policy",
        "When the model is slower than the segments: newest: the segment that waited longest is dropped; oldest: the "
        "one that comes; wait (for files): buffers are held back, every segment is answered on its own last frame",
        "newest",
    ),
    "max-queued": _number("Most queued", "Segments of one stream that may wait; without effect on wait", 1, 1000, 4),
    "max-held": _number(
        "Most held", "policy=wait: buffers that may be held back while an answer is waited for", 1, 10_000, 64
    ),
    "concurrency": _number("Concurrency", "Questions at the same time; models in this process take one", 1, 64, 2),
    "timeout": _seconds("Timeout", "Seconds for one answer, retries included", 60.0, most=86_400.0),
    "retries": _number("Retries", "How often a question is put again after an error that may pass", 0, 100, 2),
    "retry-after-limit": _seconds(
        "Retry-After limit", "The longest that an endpoint's Retry-After is obeyed, in seconds", 30.0, most=86_400.0
    ),
    "api-key-env": _text(
        "API key variable", "Name of the environment variable with the endpoint's key; default: no key is sent"
    ),
    "max-tokens": _number("Most tokens", "The longest answer in tokens; 0: the model's own limit", 0, _INT, 300),
    "max-answer": _number(
        "Longest answer", "Characters of an answer; a longer one is refused as too-large", 1, 1 << 20, 16_384
    ),
    "guided": (
        bool,
        "Guided",
        "Ask an endpoint to hold the model to the JSON Schema (response_format)",
        *(True, _READY),
    ),
    "request-options": _text(
        "Request options",
        'JSON object with more members of a request (endpoint), of generate() or of SamplingParams, as in {"top_p": 1}',
    ),
    "device": _text("Device", "Where a model in this process runs: auto, cpu, cuda, cuda:1", "auto"),
    "image-size": _number(
        "Image size", "Longest side of the pictures for the model, in pixels; 0: as they are", 0, 16_384, 1024
    ),
    "jpeg-quality": _number("JPEG quality", "Of the pictures for the model", 1, 100, 90),
    "enable": (bool, "Enable", "Whether segments are selected", True, _PLAYING),
    "stats": (
        Gst.Structure,
        "Statistics",
        "Counters since the last start: frames, pictures, asked (segments), answered, pending, waiting, undelivered "
        "(answers whose stream was gone), suppressed (triggers that began no segment), one for each reason that a "
        "segment has no answer, and failed-REASON for requests to an endpoint, those made again included",
        _READABLE,
    ),
    "answers": (
        str,
        "Answers",
        "The last 20 answers of each stream as JSON, the newest last: {stream name: [answer, ...]}",
        *(None, _READABLE),
    ),
}

READ_ONLY = ("stats", "answers")
DEFAULTS: dict[str, Any] = {name: description[-2] for name, description in GPROPERTIES.items() if name not in READ_ONLY}
"""The default stands before the flags."""

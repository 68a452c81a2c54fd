"""Whatever is in a configuration, a prompt or an answer: it is used, or refused in our own words."""

import contextlib
import itertools
import json

import pytest

hypothesis = pytest.importorskip("hypothesis")
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import READERS, check

from sluice.errors import ConfigurationError
from sluice.vlm.answers import JsonCheck, LabelsCheck, cleaned
from sluice.vlm.config import KEYS
from sluice.vlm.failures import NoAnswer
from sluice.vlm.prompts import PLACEHOLDERS, Prompt, Situation
from sluice.vlm.selection import SECOND, Selection, StreamSelector

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
documents = st.dictionaries(st.sampled_from([*KEYS, "streams", "x"]), values, max_size=5)


@settings(max_examples=200, deadline=None)
@given(documents, st.dictionaries(st.text(max_size=5), documents, max_size=2))
def test_configurations(tmp_path_factory, document, streams) -> None:
    text = yaml.safe_dump({**document, **({"streams": streams} if streams else {})})
    check(READERS["vlm"], text.encode(), tmp_path_factory.mktemp("fuzz"))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([*(f"{{{name}}}" for name in PLACEHOLDERS), "{", "}", "{{", "}}", "{count:a}", "!", ":", "x"])
    )
)
def test_prompts(parts) -> None:
    text = "".join(parts)
    try:
        prompt = Prompt(text)
    except ConfigurationError:
        return
    prompt.fill(Situation(1, "gate", pts=5, utc=7, labels=["a", ""]))


# Made once: a schema is compiled.
CHECKS = (
    JsonCheck(),
    JsonCheck({"type": "object", "properties": {"a": {"type": "integer"}}}),
    LabelsCheck(["yes", "no"]),
)


@settings(max_examples=300, deadline=None)
@given(st.text() | values.map(lambda value: json.dumps(value)))
def test_answers(text) -> None:
    for kind in CHECKS:
        with contextlib.suppress(NoAnswer):
            json.dumps(kind.value(cleaned(text)), allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(
    st.floats(0, 5),
    st.integers(1, 5).flatmap(lambda frames: st.tuples(st.just(frames), st.integers(0, frames - 1))),
    st.floats(0, 3),
    st.lists(st.integers(0, 30 * SECOND), min_size=1, max_size=60),
)
def test_every_segment_has_its_pictures_in_order_and_once(every, sizes, spacing, times) -> None:
    frames, overlap = sizes
    selector = StreamSelector(Selection(every=every, frames=frames, overlap=overlap, spacing=spacing))
    numbers, shown = [], []
    for time in sorted(times):
        if selector.wants(time):
            segments = selector.take(time)
            numbers += [one.number for one in segments]
            shown += [one.pictures for one in segments]
    assert numbers == list(range(len(numbers)))
    for before, after in itertools.pairwise(shown):
        assert after[:overlap] == before[len(before) - overlap :]
    assert all(pictures == sorted(pictures) and len(pictures) == frames for pictures in shown)

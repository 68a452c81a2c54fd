"""Whatever stands in a file that a user gives, it is read or refused by its name; nothing else comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import READERS, check


@st.composite
def spoilt(draw: st.DrawFn, good: str) -> bytes:
    """A file near a good one: lines lost, doubled, exchanged, values replaced; or cut, or with bytes put in."""
    lines = good.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        line = lines[at] if lines else ""
        cut = max(line.find("="), line.find(": "))
        value = draw(st.one_of(st.text(max_size=20), st.integers().map(str), st.floats().map(str)))
        replaced = f"{line[: cut + 1]}{value}" if cut >= 0 else value
        lines[at : at + 1] = draw(st.sampled_from([[], [line, line], [replaced], [replaced, line], [line + value]]))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        place = draw(st.integers(0, len(content)))
        content = content[:place] + draw(st.binary(max_size=8)) + content[place + draw(st.integers(0, 8)) :]
    return content


MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", sorted(READERS))
def test_the_good_file_is_read(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    path = tmp_path / reader.name
    path.write_text(reader.good)
    reader.read(path)


@pytest.mark.parametrize("name", sorted(READERS))
@MANY
@given(data=st.data())
def test_a_spoilt_file_is_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    check(READERS[name], data.draw(spoilt(READERS[name].good)), tmp_path)


@pytest.mark.parametrize("name", sorted(READERS))
@MANY
@given(content=st.binary(max_size=200))
def test_a_file_of_anything_is_read_or_refused(name: str, content: bytes, tmp_path: Path) -> None:
    check(READERS[name], content, tmp_path)

"""A tracker's lists of targets: NVIDIA's struct on the batch, in copies too, with every field as written."""

import ctypes

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.target_meta import (
    Target,
    TargetFrame,
    TargetList,
    TargetStream,
    TrackerState,
    attach_targets,
    read_targets,
)
from sluice.contract.user_meta import find, remove
from sluice.errors import ContractError

WALK = Target(
    7,
    2,
    "größe",
    [
        TargetFrame(3, (1.0, 2.0, 30.0, 40.0), 0.5, 1, TrackerState.TENTATIVE),
        TargetFrame(4, (2.0, 2.0, 30.0, 40.0), 0.75, 2, TrackerState.ACTIVE),
    ],
)
LISTS = [
    TargetStream(1, [WALK, Target((5 << 32) + 1, -1, "", [])]),
    TargetStream(9, []),
    TargetStream(2, [Target(0, 0, "x" * 200, [TargetFrame(0, (0.0, 0.0, 1.0, 1.0), 1.0, 0, TrackerState.INACTIVE)])]),
]
EXPECTED = [
    TargetStream(1, [WALK, Target((5 << 32) + 1, 65535, "", [])]),
    LISTS[1],
    TargetStream(2, [Target(0, 0, "x" * 127, LISTS[2].targets[0].frames)]),
]


def test_a_label_with_half_a_surrogate_pair_gets_a_question_mark(batch):
    attach_targets(batch, TargetList.SHADOW, [TargetStream(1, [Target(1, 0, "caf\udce9", [])])])
    assert read_targets(batch, TargetList.SHADOW) == [TargetStream(1, [Target(1, 0, "caf?", [])])]


@pytest.mark.parametrize(
    ("kind", "number"), [(TargetList.PAST_FRAMES, 15), (TargetList.TERMINATED, 18), (TargetList.SHADOW, 19)]
)
def test_target_lists_are_what_was_written(batch, kind, number):
    attach_targets(batch, kind, LISTS)
    assert read_targets(batch, kind) == EXPECTED
    (user,) = find(batch, number)
    lists = np.frombuffer(ctypes.string_at(user.data, 24), np.dtype("u8, u4, u4, u8"))[0]
    assert lists.tolist()[1:] == (3, 3, 0)
    assert [other for other in TargetList if other is not kind and read_targets(batch, other)] == []


def test_target_lists_are_copied_and_released_with_the_buffer():
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        attach_targets(batch, TargetList.TERMINATED, LISTS)
    copies = [buffer.copy_deep() for _ in range(3)]
    del buffer
    for copy in copies:
        with Lease() as lease:
            assert read_targets(BatchMeta.of(copy, lease), TargetList.TERMINATED) == EXPECTED


def test_target_lists_can_be_empty_and_be_removed(batch):
    attach_targets(batch, TargetList.PAST_FRAMES, [])
    assert read_targets(batch, TargetList.PAST_FRAMES) == []
    number = provider().layout.enum("NvDsMetaType")["NVDS_TRACKER_PAST_FRAME_META"]
    (user,) = find(batch, number)
    remove(batch, user)
    assert find(batch, number) == []


def test_numbers_that_have_no_place_in_a_target_list_are_refused(batch):
    wrong = Target(1, 0, "", [TargetFrame(-1, (0.0, 0.0, 1.0, 1.0), 1.0, 0, TrackerState.ACTIVE)])
    with pytest.raises(ContractError, match="a frame's number is -1; the field holds 0 to 4294967295"):
        attach_targets(batch, TargetList.SHADOW, [TargetStream(0, [wrong])])
    with pytest.raises(ContractError, match="a stream's number is 4294967296"):
        attach_targets(batch, TargetList.SHADOW, [TargetStream(1 << 32, [])])
    assert read_targets(batch, TargetList.SHADOW) == []

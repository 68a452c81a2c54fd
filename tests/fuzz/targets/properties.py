"""What Hypothesis draws in the tests beside, drawn from a fuzzer's bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from test_fuzz_results import test_a_surface_of_any_layout_is_read_as_it_is, test_detections_are_attached_or_refused
from test_fuzz_vlm import test_answers, test_prompts

from targets import Target

SIZE = 2000  # bytes of a seed


def _target(test: Callable[..., Any]) -> Target:
    return Target(test.hypothesis.fuzz_one_input, tuple(random.Random(seed).randbytes(SIZE) for seed in range(4)))  # type: ignore[attr-defined]


TARGETS = {
    "detections": _target(test_detections_are_attached_or_refused),
    "layouts": _target(test_a_surface_of_any_layout_is_read_as_it_is),
    "answers": _target(test_answers),
    "prompts": _target(test_prompts),
}

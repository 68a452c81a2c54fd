"""Files beside one another are taken in the order of their frames' times, and no file is waited for in vain."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sluice.app.in_step import InStep
from waiting import PATIENCE, until

MS = 1_000_000


class File:
    """Gives frames on a thread of its own, as a decoder does."""

    def __init__(self, steps: InStep, number: int, passed: list[tuple[int, int]], *, starves: bool = False) -> None:
        self.over = False
        self.absences = self.looks = 0
        self._steps, self._number, self._passed = steps, number, passed
        steps.join(number, lambda: starves, self._has_ended, self._be_absent)

    def _has_ended(self) -> bool:
        self.looks += 1
        return self.over

    def _be_absent(self) -> None:
        self.absences += 1

    def give(self, times: Sequence[int], *, ends: bool = True) -> threading.Thread:
        def run() -> None:
            for at in times:
                self._steps.wait(self._number, at * MS, 20 * MS)
                self._passed.append((at, self._number))
                self._steps.left([self._number])
            self.over = ends

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def test_frames_pass_in_the_order_of_their_times_whatever_the_files_rates() -> None:
    passed: list[tuple[int, int]] = []
    steps = InStep()
    files = [File(steps, number, passed) for number in range(3)]
    rates = ([*range(0, 1000, 100)], [*range(0, 1000, 40)], [*range(0, 400, 60)])
    threads = [file.give(times) for file, times in zip(files, rates, strict=True)]
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert [at for at, _ in passed] == sorted(at for times in rates for at in times)
    assert files[0].absences > 0  # it waits for others, and the mux not for it


def test_rates_that_are_nearly_the_same_go_together() -> None:
    passed: list[tuple[int, int]] = []
    steps = InStep()
    first, second = (File(steps, number, passed) for number in range(2))
    first.give([0, 33], ends=False)
    second.give([0, 34], ends=False)
    until(lambda: len(passed) == 4, "the last frames, 1 ms from each other")


def test_a_file_that_gives_no_frame_is_not_waited_for_longer_than_the_patience() -> None:
    passed: list[tuple[int, int]] = []
    now = [0.0]
    steps = InStep(lambda: now[0], patience=5.0)
    first, second = File(steps, 0, passed), File(steps, 1, passed, starves=True)
    second.give([0], ends=False)
    until(lambda: passed == [(0, 1)] or second.absences, "it waits for the first, which has not begun")
    first.give([0, 40, 80], ends=False)
    until(lambda: len(passed) == 2 and first.absences, "both are at 0, and the first waits for the second")
    now[0] = 6.0
    until(lambda: (80, 0) in passed, "the first goes on")
    second.give([40, 80])
    until(lambda: (80, 1) in passed, "the second is back")


def test_a_file_that_is_held_up_by_the_model_is_waited_for_as_long_as_it_takes() -> None:
    passed: list[tuple[int, int]] = []
    now = [0.0]
    steps = InStep(lambda: now[0], patience=5.0)
    first, second = File(steps, 0, passed), File(steps, 1, passed)
    second.give([0], ends=False)
    first.give([0, 40], ends=False)
    until(lambda: len(passed) == 2 and first.absences, "the first waits for the second")
    now[0] = 100.0
    looks = second.looks
    until(lambda: second.looks > looks + 2, "it is looked whether the second has ended")
    assert (40, 0) not in passed
    steps.leave(1)
    until(lambda: (40, 0) in passed, "the second is gone")


def test_nothing_is_held_back_at_the_end_of_a_run() -> None:
    passed: list[tuple[int, int]] = []
    steps = InStep()
    first, _ = File(steps, 0, passed), File(steps, 1, passed)
    first.give([0, 40, 80])
    until(lambda: passed == [(0, 0)], "the next one waits for the second file")
    steps.close()
    until(lambda: (80, 0) in passed, "it goes on alone")

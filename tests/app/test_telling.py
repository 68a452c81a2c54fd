"""A text of which several threads know a part: the newest is set last, by one thread at a time, and stays small."""

from __future__ import annotations

import json
import threading
import time

from sluice.app.telling import StreamTexts


def test_the_last_text_that_is_set_has_everything_that_was_told() -> None:
    texts: list[str] = []
    inside = threading.Semaphore(1)

    def set_text(text: str) -> None:
        assert inside.acquire(blocking=False), "two threads set it at once"
        time.sleep(0.002)
        texts.append(text)
        inside.release()

    told = StreamTexts(json.dumps, set_text)

    def tell(first: int) -> None:
        for number in range(first, first + 20):
            told.tell(number, number)
            assert str(number) in json.loads(texts[-1])  # it is set, or a newer one is, before the caller goes on

    threads = [threading.Thread(target=tell, args=(100 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(texts[-1])) == 160
    assert len(texts) <= 160


def test_streams_that_have_left_are_forgotten_in_the_end() -> None:
    texts: list[str] = []
    told = StreamTexts(json.dumps, texts.append)
    for number in range(200):
        told.tell(number, "name")
        told.forget(number)
    assert len(json.loads(texts[-1])) <= 65
    assert "199" in json.loads(texts[-1])  # messages of it may still be made


def test_who_cannot_set_it_keeps_nobody_else_from_it() -> None:
    texts: list[str] = []

    def set_text(text: str) -> None:
        if not texts:
            texts.append("failed")
            raise ValueError("no")
        texts.append(text)

    told = StreamTexts(json.dumps, set_text)
    try:
        told.tell(1, "a")
    except ValueError:
        told.tell(2, "b")
    assert json.loads(texts[-1]) == {"1": "a", "2": "b"}

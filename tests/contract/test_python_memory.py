"""Python's functions in the hands of the C library."""

import gc
import weakref

from sluice.contract._python_memory import use_python


def test_a_table_that_the_library_was_given_lives_on_though_another_thread_made_one_at_the_same_moment() -> None:
    use_python()
    given = weakref.ref(use_python.__wrapped__())  # as when two threads come to it at once, of which one is remembered
    gc.collect()
    assert given() is not None

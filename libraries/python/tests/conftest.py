"""What all tests have in common."""

import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from .world import Setup

# Nothing is left behind: neither compiled modules nor a database of examples.
sys.dont_write_bytecode = True
settings.register_profile("tests", database=None, deadline=None)
settings.load_profile("tests")


@pytest.fixture
def new() -> Iterator[Callable[..., Setup]]:
    """Makes environments of functions, whose handlers are over when the test is."""
    made: list[Setup] = []

    def one(*arguments: object) -> Setup:
        made.append(Setup(*arguments))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for setup in made:
        setup.clock.close()

"""What all tests have in common."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

from .world import Setup

# Nothing is left behind: neither compiled modules, nor a database of examples, nor tables beside the sources.
sys.dont_write_bytecode = True
set_hypothesis_home_dir(Path(__file__).parents[3] / "target" / "hypothesis")
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

"""What is remembered of data sets stays with the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nothing_remembered(own_cache_folder: None) -> None:
    """For all tests of this room."""

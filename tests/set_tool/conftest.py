"""What is remembered of data sets stays with the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests leave nothing in the user's folders."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('caches')))

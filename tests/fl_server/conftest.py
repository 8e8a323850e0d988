"""Makes the helpers beside the tests importable under every import mode; databases for tests."""

import logging
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def plain_logs():
    """A server in this process says where the logs of all go, and from which level on."""
    logging.getLogger().setLevel(logging.WARNING)
    yield
    root = logging.getLogger()
    for handler in [it for it in root.handlers if type(it) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of the tests' own."""
    from fl_postgres import cluster

    with cluster() as made:
        yield made


@pytest.fixture
def opened():
    """Keeps what has a `close`, and calls it when the test is over."""
    with ExitStack() as stack:

        def keep(it):
            stack.callback(it.close)
            return it

        yield keep


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    """The URL of an empty database, in turn of each kind; empty for SQLite in the folder."""
    if request.param == "sqlite":
        return ""
    return request.getfixturevalue("postgres").database("test")

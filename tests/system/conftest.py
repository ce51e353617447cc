import pytest

from stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One stack for the tests that do not break it."""
    running = Stack(tmp_path_factory.mktemp("stack"), 27400)
    running.up()
    yield running
    running.down()

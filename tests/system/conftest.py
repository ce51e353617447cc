import pytest

from stack import running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One stack for the tests that do not break it."""
    with running_stack(tmp_path_factory.mktemp("stack"), 27400) as running:
        yield running

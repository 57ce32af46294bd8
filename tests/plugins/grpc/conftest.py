"""The fixtures of the core that these tests use too."""

from collector_fixtures import *  # noqa: F403 - pytest finds fixtures by their names here

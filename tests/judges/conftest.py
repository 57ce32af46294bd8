"""The fixtures of this folder; plugins that use them too import them from the same place."""

from judge_fixtures import *  # noqa: F403 - pytest finds fixtures by their names here

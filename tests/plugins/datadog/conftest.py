"""What needs ddtrace runs with `make test-datadog`, in an environment of its own."""

from importlib.util import find_spec


collect_ignore_glob = [] if find_spec("ddtrace") else ["live/*"]

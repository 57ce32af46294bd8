"""How much of the machine a process may use, as the files of the kernel say it."""

import os

import pytest

from llmeval_sdk.process.cores import usable_cores


ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture
def limits(tmp_path):
    """Return what writes files of control groups, and what reads them."""
    member_of, groups = tmp_path / "cgroup", tmp_path / "groups"

    def write(member, **files):
        member_of.write_text(member)
        for name, text in files.items():
            path = groups / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            for old, new in (("cpu_max", "cpu.max"), ("cfs_", "cpu.cfs_")):
                path = path.with_name(path.name.replace(old, new))
            path.write_text(text)
        return usable_cores(groups, member_of)

    return write


def test_without_a_limit_it_is_the_affinity(limits):
    """Whether there are no files, no group or the word for no limit."""
    assert limits("") == ALL
    assert limits("0::/app\n", app__cpu_max="max 100000\n") == ALL
    assert limits("4:cpu,cpuacct:/\n", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000") == ALL
    assert usable_cores() <= ALL


def test_the_smallest_limit_around_the_process_counts(limits):
    """A service may be limited as a whole, below its own limit."""
    member = "0::/app/web\n"
    assert limits(member, app__web__cpu_max="50000 100000\n") == 0.5
    assert limits(member, app__cpu_max="20000 100000\n") == 0.2
    assert limits(member, cpu_max="10000 100000\n") == 0.1


def test_the_first_version_of_control_groups_is_read(limits):
    """Its folder is named by one controller or by all of them."""
    member = "4:cpu,cpuacct:/app\n1:name=systemd:/app\n"
    assert limits(member, cpu__app__cfs_quota_us="25000", cpu__app__cfs_period_us="100000") == 0.25


@pytest.mark.parametrize("text", ["", "many", "1 0", "-5 10", "1e3 10", "9" * 5_000 + " 1"])
def test_a_file_that_cannot_be_read_is_no_limit(limits, text):
    """Nothing in it raises."""
    assert limits("0::/\n", cpu_max=text) == ALL

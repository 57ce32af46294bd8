"""A plugin is a typed thing that the core runs without, and that a stranger can write."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from llmeval_sdk import registry


PLUGIN = """

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config.reading import count


class LengthSettings(config.Table):
    longest_answer: int = config.setting(
        400, "LENGTH_LONGEST_ANSWER", read=count, doc="Characters that an answer may have."
    )


@llmeval.heuristic(automatic=False)
def answer_length(record):
    return float(len(str(record.response)))


def findings(settings, *, offline=False):
    longest = settings.of(LengthSettings).longest_answer
    yield True, "length", f"answers may have {longest} characters"


class Long(llmeval.Hooks):
    found = 0

    def __init__(self, longest):
        self.longest = longest

    def record_evaluated(self, span, record, *, in_spool):
        Long.found += len(str(record.response)) > self.longest
        return []


class LengthPlugin(llmeval.Plugin):
    name = "length"
    settings = {"Length of answers": "length_plugin:LengthSettings"}
    heuristics = {"answer_length": "length_plugin:answer_length"}
    findings = {"Length of answers": "length_plugin:findings"}

    def prepare(self, planning):
        planning.hooks.append(Long(planning.settings.of(LengthSettings).longest_answer))
"""
APP = """
import llmeval_sdk as llmeval

llmeval.configure(exporters=["memory"], evaluators=["answer_length"])


@llmeval.workflow
def answer(question):
    return "Slate, as the survey of the roof says."


print(answer("What is the roof made of?"))
llmeval.flush()
import length_plugin
from llmeval_sdk.exporters import memory

names = {event.evaluation.name for event in memory.evaluations()}
print("answer_length" in names, length_plugin.Long.found)
"""


def wheel_of(folder, module, text, points):
    """Write a wheel of one module, as a build backend would."""
    path = folder / f"{module}-1.0-py3-none-any.whl"
    about = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", text)
        wheel.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/entry_points.txt", f"[llmeval_sdk.plugins]\n{points}\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


def installed(folder, *wheels):
    """Unpack wheels where Python finds them, as installing them would."""
    site = folder / "site"
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(site)
    return {**os.environ, "PYTHONPATH": str(site), "XDG_STATE_HOME": str(folder)}


def run(environment, *arguments):
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_a_plugin_of_another_package_brings_scores_settings_and_hooks(tmp_path):
    """From a wheel of its own, found by its entry point; the app names nothing but the score."""
    wheel = wheel_of(tmp_path, "length_plugin", PLUGIN, "length = length_plugin:LengthPlugin")
    environment = {**installed(tmp_path, wheel), "LENGTH_LONGEST_ANSWER": "10"}
    done = run(environment, "-c", APP)
    assert done.stdout.splitlines() == ["Slate, as the survey of the roof says.", "True 1"], done
    doctor = run(environment, "-m", "llmeval_sdk", "doctor", "--offline", "--json")
    sections = json.loads(doctor.stdout)["sections"]
    assert sections["Length of answers"][0]["words"] == "answers may have 10 characters"


OF_A_PLUGIN = "import llmeval_sdk\nclass Bad(llmeval_sdk.Plugin):\n    name = 'bad'\n"
UNUSABLE = {
    "raises on import": ("raise RuntimeError('broken')", "RuntimeError: broken"),
    "is no plugin": ("Bad = 5", "is no llmeval_sdk.Plugin"),
    "has another's name": (f"{OF_A_PLUGIN}    name = 'ragas'", "another plugin is named 'ragas'"),
    "is too new": (f"{OF_A_PLUGIN}    api = 99", "needs a newer llmeval_sdk"),
    "has no table": (
        OF_A_PLUGIN.replace("'bad'", "'bare'") + "    settings = {'Own': 'builtins:dict'}",
        "no config.Table",
    ),
    "lacks another": (f"{OF_A_PLUGIN}    requires = ('moon',)", "it requires the plugin 'moon'"),
}


def beside_a_good_one(folder, texts):
    """Return an environment with plugins of some texts, and the plugin of lengths."""
    bad = [
        wheel_of(folder, f"bad_{number}", text, f"bad_{number} = bad_{number}:Bad")
        for number, text in enumerate(texts)
    ]
    good = wheel_of(folder, "length_plugin", PLUGIN, "length = length_plugin:LengthPlugin")
    return {**installed(folder, *bad, good), "LENGTH_LONGEST_ANSWER": "10"}


def test_a_plugin_that_cannot_be_used_is_left_out_and_told(tmp_path):
    """One line each in the log and in doctor; the app and the other plugins run."""
    environment = beside_a_good_one(tmp_path, [text for text, _ in UNUSABLE.values()])
    done = run(environment, "-c", APP)
    assert done.stdout.splitlines()[-1] == "True 1", done
    assert done.stderr.count("is left out") == len(UNUSABLE)
    doctor = run(environment, "-m", "llmeval_sdk", "doctor", "--offline")
    assert doctor.returncode == 1
    for _, reason in UNUSABLE.values():
        assert reason in done.stderr
        assert reason in " ".join(doctor.stdout.split())


def test_a_plugin_that_raises_at_start_costs_itself(tmp_path):
    """What it raises is counted and told; the configuration holds without it."""
    methods = ("prepare", "complete", "start")
    texts = [
        f"{OF_A_PLUGIN.replace('bad', method)}"
        f"    def {method}(self, *given):\n        raise RuntimeError('no')\n"
        for method in methods
    ]
    done = run(beside_a_good_one(tmp_path, texts), "-c", APP)
    assert done.stdout.splitlines()[-1] == "True 1", done
    for method in methods:
        assert f"plugin {method}" in done.stderr


def test_hooks_that_raise_cost_their_own_call(tmp_path):
    """The record is scored and delivered all the same."""
    text = PLUGIN.replace(
        "        Long.found +=", "        raise RuntimeError('no')\n        Long.found +="
    )
    wheel = wheel_of(tmp_path, "length_plugin", text, "length = length_plugin:LengthPlugin")
    done = run(installed(tmp_path, wheel), "-c", APP)
    assert done.stdout.splitlines()[-1] == "True 0", done


def test_every_folder_of_plugins_has_its_line():
    """A plugin that nobody names would never be loaded."""
    folders = {
        path.parent.name for path in Path(registry.__file__).parent.glob("plugins/*/__init__.py")
    }
    assert folders == set(registry._PLUGINS)
    assert {plugin.name for plugin in registry.plugins()} == folders

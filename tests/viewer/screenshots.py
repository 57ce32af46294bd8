"""Pictures of the viewer's main pages, on a store that the demo made.

python tests/viewer/screenshots.py OUT [README_OUT]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright

import llmeval_sdk as llmeval
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.reader import StoreReader


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}
WHOLE = (
    "run",
    "chat",
    "session",
    "overview",
    "compare",
    "experiments",
    "experiment",
    "experiments-compared",
    "thumbs",
    "label",
    "versions",
)
"""Pages that are pictured from top to bottom."""
README = {
    "list": "viewer-traces.png", "trace": "viewer-trace.png",
    "experiments-compared": "viewer-experiments.png",
}  # fmt: skip
"""What stands in the README and in the pages on the viewer."""
_DOUBTFUL = """
SELECT e.trace_id FROM evaluations e JOIN evaluations r
  ON r.span_id = e.span_id AND r.name = 'groundedness_risk'
WHERE e.name = 'context_recall_llm' AND r.value > 0.5
ORDER BY r.value DESC LIMIT 1
"""
_OTHER = """
SELECT trace_id FROM evaluations WHERE name = 'context_recall_llm' AND trace_id != ?
ORDER BY time_ns DESC LIMIT 1
"""
_ROOTS = "SELECT trace_id, span_id FROM spans WHERE parent_id IS NULL AND kind = 'workflow'"
_RUN = """
SELECT trace_id, span_id FROM spans WHERE kind = 'llm' AND session_id = 'chat-7' LIMIT 1
"""


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "llmeval.db"
        demo = [sys.executable, "-m", "llmeval_sdk", "demo", "--store", str(store)]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        chat = [sys.executable, str(Path(__file__).with_name("sample_chat.py")), str(store)]
        subprocess.run(chat, check=True)
        with StoreReader(store) as reader:
            (trace,) = reader.read(lambda c: c.execute(_DOUBTFUL).fetchone())
            run, model = reader.read(lambda c: c.execute(_RUN).fetchone())
            other = reader.read(lambda c: c.execute(_OTHER, (trace,)).fetchone()[0])
        speak(store)
        experiment(store.with_name("reports"))
        view = [sys.executable, "-m", "llmeval_sdk", "view", "--no-open", "--no-token", "--port=0"]
        server = subprocess.Popen([*view, "--store", str(store)], stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip().rstrip("/")
            shoot(address, trace, other, f"/traces/{run}", f"/traces/{run}?span={model}", out)
        finally:
            server.terminate()
            server.wait(10)
    if len(sys.argv) > 2:
        readme = Path(sys.argv[2])
        readme.mkdir(parents=True, exist_ok=True)
        for name, target in README.items():
            shutil.copy(out / f"viewer-{name}.png", readme / target)


def speak(store):
    """Have every third user of the demo say what they think, mostly that it is good."""
    with StoreReader(store) as reader:
        spans = reader.read(lambda c: c.execute(_ROOTS).fetchall())
        for number, (trace_id, span_id) in enumerate(spans[::3]):
            span = reader.span(span_id, trace_id)
            event = human_label(span, "thumbs", number % 4 != 0, source="user")
            add_feedback(store, replace(event, timestamp_ns=time.time_ns() - number * 400 * 10**9))


def experiment(folder):
    """Save two runs of a small golden set, the second with a few other answers."""
    houses = ("barn", "farm house", "mill", "chapel", "smithy", "tower", "school", "inn") * 4
    for name, wrong in (("prompt-v1", (3, 9)), ("prompt-v2", (5, 9, 20, 27))):
        rows = [
            {
                "request_id": f"house-{number:02}",
                "request": f"What is the roof of the {house} made of?",
                "response": "The roof is thatched." if number in wrong else "It is slate.",
                "expected_response": "It is slate.",
                "retrieved_context": [{"content": f"The roof of the {house} is of slate."}],
            }
            for number, house in enumerate(houses)
        ]
        llmeval.evaluate(
            rows, evaluators=["exact_match", "token_f1", "groundedness_risk", "context_relevance"],
            save=folder / f"{name}.jsonl", experiment=name, progress=False,
        )  # fmt: skip
    (folder / "broken.jsonl").write_text("not a report\n")


def shoot(address, trace, other, run, model, out):
    pages = {
        "list": "/",
        "trace": f"/traces/{trace}",
        "run": run,
        "chat": model,
        "sessions": "/sessions",
        "session": "/session?id=chat-7",
        "scores": "/scores",
        "judge": "/scores/context_recall_llm",
        "category": "/scores/agreement_pattern",
        "thumbs": "/scores/thumbs",
        "overview": "/overview",
        "compare": f"/compare?a={trace}&b={other}",
        "experiments": "/experiments",
        "experiment": "/experiments/report?name=prompt-v2.jsonl",
        "experiments-compared": "/experiments/compare?a=prompt-v1.jsonl&b=prompt-v2.jsonl",
        "label": "/label",
        "versions": "/versions",
    }
    looks = {
        "": DESK,
        "-dark": {**DESK, "color_scheme": "dark"},
        "-phone": PHONE,
        "-phone-dark": {**PHONE, "color_scheme": "dark"},
    }
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for suffix, look in looks.items():
            context = browser.new_context(**look)
            page = context.new_page()
            for name, path in pages.items():
                page.goto(f"{address}{path}")
                page.wait_for_load_state("load")
                page.get_by_text("Still counting").wait_for(state="detached")
                target = out / f"viewer-{name}{suffix}.png"
                page.screenshot(path=target, full_page=name in WHOLE)
                print(f"{os.path.relpath(target)}  {target.stat().st_size // 1000} kB")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()

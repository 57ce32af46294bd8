"""Pictures of the viewer's main pages, on a store that the demo made.

python tests/viewer/screenshots.py OUT [README_OUT]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from llmeval_sdk.store.reader import StoreReader


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}
WHOLE = ("run", "chat", "session")
"""Pages that are pictured from top to bottom."""
README = {"list": "viewer-traces.png", "trace": "viewer-trace.png"}
"""What stands in the README."""
_DOUBTFUL = """
SELECT e.trace_id FROM evaluations e JOIN evaluations r
  ON r.span_id = e.span_id AND r.name = 'groundedness_risk'
WHERE e.name = 'context_recall_llm' AND r.value > 0.5
ORDER BY r.value DESC LIMIT 1
"""
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
        view = [sys.executable, "-m", "llmeval_sdk", "view", "--no-open", "--no-token", "--port=0"]
        server = subprocess.Popen([*view, "--store", str(store)], stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip().rstrip("/")
            shoot(address, trace, f"/traces/{run}", f"/traces/{run}?span={model}", out)
        finally:
            server.terminate()
            server.wait(10)
    if len(sys.argv) > 2:
        readme = Path(sys.argv[2])
        readme.mkdir(parents=True, exist_ok=True)
        for name, target in README.items():
            shutil.copy(out / f"viewer-{name}.png", readme / target)


def shoot(address, trace, run, model, out):
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
                target = out / f"viewer-{name}{suffix}.png"
                page.screenshot(path=target, full_page=name in WHOLE)
                print(f"{os.path.relpath(target)}  {target.stat().st_size // 1000} kB")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()

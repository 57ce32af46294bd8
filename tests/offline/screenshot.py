"""A picture of a report's page: a retriever was changed, and finds the right page less often.

python tests/offline/screenshot.py FILE.png
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import llmeval_sdk as llmeval
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.testing.judge_server import JudgeServer


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
FACTS = {
    "roof": "covered with Welsh slate", "walls": "built of red brick", "floor": "made of oak boards",
    "boiler": "fired by gas", "windows": "made of painted pine", "garden": "two acres in size",
    "well": "sunk to forty feet", "barn": "let to a neighbour", "chimney": "lined with steel",
}  # fmt: skip
BOUNDS = {
    "response/llm_judged/correctness/rating/percentage": 0.9,
    "response/llm_judged/groundedness/rating/percentage": 0.9,
    "retrieval/ground_truth/document_recall/average": 0.8,
}


def golden(hits, count=240):
    """Make rows of an app whose retriever finds the right page so often."""
    rows = []
    for number in range(count):
        chance = random.Random(number)
        house = f"{number + 1} Mill Lane"
        topic, other = chance.sample(sorted(FACTS), 2)
        right = chance.random() < hits
        found = [topic if right else other, other, chance.choice(sorted(FACTS))]
        said = FACTS[topic] if right or chance.random() < 0.4 else FACTS[other]
        rows.append(
            {
                "request_id": f"mill-lane-{number + 1}",
                "request": f"What does the survey say: how is the {topic} of {house}?",
                "response": f"The {topic} of {house} is {said}.",
                "expected_response": f"The {topic} is {FACTS[topic]}.",
                "retrieved_context": [
                    {
                        "content": f"The survey says the {name} of {house} is {FACTS[name]}.",
                        "doc_uri": f"survey/{number + 1}/{name}",
                        "chunk_id": f"{number}-{name}",
                        "score": round(min(0.99, chance.gauss(0.8 - 0.15 * rank, 0.08)), 2),
                        "page": chance.randrange(1, 30),
                        "retrieval_method": ("bm25", "knn")[(rank + number) % 2],
                    }
                    for rank, name in enumerate(found)
                ],
                "expected_retrieved_context": [{"doc_uri": f"survey/{number + 1}/{topic}"}],
            }
        )
    return rows


def page(folder):
    with JudgeServer() as server:
        options = {
            "llm": OpenAILLM("stand-in", base_url=server.base_url, api_key="none"),
            "cache": False,
        }
        before = llmeval.evaluate(golden(0.97), experiment="main", **options)
        after = llmeval.evaluate(golden(0.87), experiment="new-retriever", **options)
    path = Path(folder) / "report.html"
    path.write_text(after.to_html(at_least=BOUNDS, compared=after.compare(before)), "utf-8")
    return path


def main():
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 1_150})
        shown.goto(f"file://{page(folder)}")
        shown.screenshot(path=target)
        browser.close()
    print(f"{os.path.relpath(target)}  {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

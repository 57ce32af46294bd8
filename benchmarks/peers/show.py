"""The comparison as a Markdown table and as a chart that stands by itself."""

import re


def table(contenders, figures, rounds):
    """Return a Markdown table: a row for each figure, a column for each peer."""
    rows = [
        ["", *(each.title for each in contenders)],
        ["---", *("---:" for _ in contenders)],
        *([title, *(cell(figures, each) for each in contenders)] for title, cell in ROWS),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", f"Medians of {rounds} rounds."])


def _latency(case):
    def cell(figures, contender):
        found = figures.get((contender.adapter, case))
        return "–" if found is None else f"{found['p50']:,.1f} / {found['p99']:,.0f}"

    return cell


def _cpu(figures, contender):
    return f"{cpu(figures, contender):,.0f}"


def cpu(figures, contender):
    """Return CPU per call in microseconds beyond the empty loop's, over all threads."""
    alone = figures["nothing", "small"]["cpu"]
    return max(0.0, figures[contender.adapter, "small"]["cpu"] - alone)


def _exit(case):
    return lambda figures, contender: f"{figures[contender.adapter, case]['exit']:.1f}"


def _received(case):
    def cell(figures, contender):
        found = figures[contender.adapter, case]
        if contender.adapter == "nothing":
            return "–"
        return f"{found['records']:,.0f} of {found['created']:,.0f}"

    return cell


ROWS = (
    ("call, p50 / p99 µs", _latency("small")),
    ("call with 20 KB, p50 / p99 µs", _latency("large")),
    ("five chunks and scoring, p50 / p99 µs", _latency("scored")),
    ("call, backend closed, p50 / p99 µs", _latency("closed")),
    ("call, backend hanging, p50 / p99 µs", _latency("hanging")),
    ("CPU per call, all threads, µs", _cpu),
    ("exit, healthy, s", _exit("small")),
    ("exit, backend closed, s", _exit("closed")),
    ("exit, backend hanging, s", _exit("hanging")),
    ("records received", _received("small")),
    ("records received, 20 KB", _received("large")),
)


def chart(contenders, figures):
    """Return three bar charts side by side as an SVG on a white ground, with colours of its own."""
    from llmeval_sdk import charts

    peers = [each for each in contenders if each.adapter != "nothing"]
    panels = (
        ("Call, median (µs)", lambda peer: figures[peer.adapter, "small"]["p50"]),
        ("CPU per call, all threads (µs)", lambda peer: cpu(figures, peer)),
        ("Exit, backend hanging (s)", lambda peer: figures[peer.adapter, "hanging"]["exit"]),
    )
    spec = {
        "background": "#ffffff",
        "padding": 14,
        "hconcat": [
            _panel(title, peers, value, labels=not number)
            for number, (title, value) in enumerate(panels)
        ],
    }
    drawn = charts.svg(spec, title="What llmeval_sdk and its peers cost the app")
    return re.sub(r"var\(--[\w-]+, (#\w+)\)", r"\1", drawn)


def _panel(title, peers, value, *, labels):
    rows = [
        {
            "peer": peer.title.replace(", ", " + "),
            "value": value(peer),
            "shown": f"{value(peer):,.{1 if value(peer) < 10 else 0}f}",
            "ours": peer.adapter == "ours",
        }
        for peer in peers
    ]
    y = {"field": "peer", "type": "nominal", "sort": None, "title": None}
    y["axis"] = (
        {"labelLimit": 260, "labelPadding": 6, "ticks": False, "domain": False} if labels else None
    )
    x = {"field": "value", "type": "quantitative", "axis": None}
    x["scale"] = {"domainMax": 1.25 * max(row["value"] for row in rows)}
    colour = {"condition": {"test": "datum.ours", "value": "#2f6fde"}, "value": "#a7b0ba"}
    return {
        "title": title, "width": 190, "height": {"step": 26}, "data": {"values": rows},
        "layer": [
            {"mark": {"type": "bar", "height": 16}, "encoding": {"x": x, "y": y, "color": colour}},
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11},
                "encoding": {"x": x, "y": y, "text": {"field": "shown"}},
            },
        ],
    }  # fmt: skip

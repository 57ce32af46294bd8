"""The comparison as a Markdown table and as a chart that stands by itself."""

from html import escape


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


PANEL, ROW, LEFT, TOP = 210, 26, 150, 40
"""Pixels: the width of a panel, the height of a row, the names at the left, the titles above."""


def chart(contenders, figures):
    """Return three bar charts side by side as an SVG on a white ground, with colours of its own."""
    peers = [each for each in contenders if each.adapter != "nothing"]
    panels = (
        ("Call, median (µs)", lambda peer: figures[peer.adapter, "small"]["p50"]),
        ("CPU per call, all threads (µs)", lambda peer: cpu(figures, peer)),
        ("Exit, backend hanging (s)", lambda peer: figures[peer.adapter, "hanging"]["exit"]),
    )
    names = [peer.title.replace(", ", " + ") for peer in peers]
    left = max(LEFT, 7 * max(map(len, names)) + 20)
    width, height = left + len(panels) * (PANEL + 20), TOP + ROW * len(peers) + 14
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" fill="#333333" '
        'role="img" aria-label="What llmeval_sdk and its peers cost the app">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    )
    parts = [head]
    for row, name in enumerate(names):
        parts.append(_text(left - 8, TOP + row * ROW + 17, name, "end"))
    for number, (title, value) in enumerate(panels):
        x = left + number * (PANEL + 20)
        parts.append(_text(x, TOP - 16, title, "start", ' font-weight="600"'))
        most = max(map(value, peers)) or 1
        for row, peer in enumerate(peers):
            y, long = TOP + row * ROW, 0.75 * PANEL * value(peer) / most
            colour = "#2f6fde" if peer.adapter == "ours" else "#a7b0ba"
            parts.append(
                f'<rect x="{x}" y="{y + 5}" width="{max(long, 1):.1f}" height="16" fill="{colour}"/>'
            )
            shown = f"{value(peer):,.{1 if value(peer) < 10 else 0}f}"
            parts.append(_text(x + long + 5, y + 17, shown, "start"))
    return "".join([*parts, "</svg>"])


def _text(x, y, text, anchor, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'

"""Draws the rooms of the package by floor, with who imports whom, from the imports alone.

python tests/support/rooms_drawing.py docs/images/rooms.svg     # what `make rooms` runs
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "llmeval_sdk"
WIDTH, BOX, HEIGHT, GAP = 940, 132, 40, 74
COLOURS = ("#4063d8", "#389826", "#9558b2", "#cb3c33", "#b8860b", "#2a7f8e")


def room_of(module):
    """Return the room of a module: the folder or file at the top of the package."""
    return [*module.split("."), ""][1]


def arrows():
    """Return the number of imports from each room to each other one, and the files of each room."""
    counts, files = defaultdict(int), defaultdict(int)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        room = room_of(module)
        if not room or room in ("__main__", "auto"):
            continue
        files[room] += 1
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("llmeval_sdk"):
                names = [f"{node.module}.{name.name}" for name in node.names]
                for other in {room_of(name) for name in names} - {room, ""}:
                    counts[room, other] += 1
    rooms = set(files)
    return {pair: n for pair, n in counts.items() if set(pair) <= rooms}, files


def floors(counts, rooms):
    """Return the floor of each room: one more than the highest floor that it imports from."""
    floor = {}

    def of(room, above=()):
        if room not in floor:
            below = {b for a, b in counts if a == room} - {room, *above}
            floor[room] = 1 + max((of(other, (*above, room)) for other in below), default=-1)
        return floor[room]

    for room in sorted(rooms):
        of(room)
    return floor


def drawing():
    """Return the picture as SVG."""
    counts, files = arrows()
    floor = floors(counts, files)
    top = max(floor.values())
    rows = defaultdict(list)
    for room in sorted(files):
        rows[top - floor[room]].append(room)
    place = {}
    for row, rooms in rows.items():
        step = WIDTH / len(rooms)
        for column, room in enumerate(rooms):
            place[room] = (step * (column + 0.5), 24 + row * GAP)
    height = 24 + top * GAP + HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<style>text { font: 13px sans-serif; text-anchor: middle }</style>",
        "<title>The rooms of the package by floor, with who imports whom</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for (a, b), number in sorted(counts.items()):
        (x1, y1), (x2, y2) = place[a], place[b]
        y1, y2 = y1 + HEIGHT, y2
        colour = COLOURS[sorted(files).index(a) % len(COLOURS)]
        middle, thickness = (y1 + y2) / 2, min(1 + number / 25, 5)
        curve = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} {x2:.0f},{y2:.0f}"
        style = f'fill="none" stroke="{colour}" stroke-opacity="0.45"'
        parts.append(f'<path d="{curve}" {style} stroke-width="{thickness:.1f}"/>')
    for room, (x, y) in sorted(place.items()):
        corner = f'x="{x - BOX / 2:.0f}" y="{y:.0f}" width="{BOX}" height="{HEIGHT}" rx="6"'
        parts += [
            f'<rect {corner} fill="#f6f8fa" stroke="#57606a"/>',
            f'<text x="{x:.0f}" y="{y + 18:.0f}" fill="#1f2328">{room}</text>',
            f'<text x="{x:.0f}" y="{y + 33:.0f}" fill="#57606a">{files[room]} files</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawing(), "utf-8")

"""The form of JSON values: which keys there are and of which types their values are."""


def shape(value):
    """Describe a value by its keys and types; of a list's items, every form is described once."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        shapes = []
        for inner in map(shape, value):
            if inner not in shapes:
                shapes.append(inner)
        return shapes
    return "null" if value is None else type(value).__name__


def columns(rows):
    """Describe rows as one: each key with the types of its values, and which keys every row has."""
    found = {}
    for row in rows:
        for key, value in row.items():
            kind = shape(value)
            kinds = found.setdefault(key, [])
            if kind not in kinds:
                kinds.append(kind)
    return {
        key: {"in_every_row": all(key in row for row in rows), "forms": sorted(kinds, key=str)}
        for key, kinds in sorted(found.items())
    }

"""jsondoc.py DOCUMENT SECTION [FILE...]: does the JSON in these files have
just the keys and types that the section of the document says?  Prints what
is not so.  A key that is not optional must be in one of the files.  FILE -:
events, one a line.

Written from the document alone; uses no code of the product."""

import json
import re
import sys

SNAPSHOT = "Names of a snapshot"


def sections(path):
    found, rows = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("## "):
                rows = found.setdefault(line[3:].strip(), {})
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            match = re.fullmatch(r"`(.+)`", cells[0]) if rows is not None else None
            if match and len(cells) >= 2:
                rows[match[1]] = (cells[1], cells[2] if len(cells) > 2 else "")
    return found


def whole(table, name):
    """A section's keys, those of <snapshot> put in."""
    rows = {}
    for key, row in table[name].items():
        if key.endswith("<snapshot>"):
            for inner, inner_row in table[SNAPSHOT].items():
                rows[key.replace("<snapshot>", inner)] = inner_row
        else:
            rows[key] = row
    return rows


def kind(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return {str: "string", dict: "object", list: "array"}[type(value)]


def leaves(value, path, rows):
    """(path, type) of each value that is documented as one, or has no parts."""
    if isinstance(value, dict) and path not in rows:
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}" if path else key, rows)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path + "[]", rows)
    else:
        yield path, kind(value)


def main():
    table = sections(sys.argv[1])
    name = sys.argv[2]
    if name not in table:
        sys.exit(f"no section '{name}'")
    rows = whole(table, name)
    events = name == "Events"
    seen, bad = set(), []
    for path in sys.argv[3:]:
        with open(path, encoding="utf-8") as file:
            documents = [json.loads(line) for line in file] if events else [json.load(file)]
        for document in documents:
            for key, found in leaves(document, "", rows):
                seen.add(key)
                if key not in rows:
                    if not (events and found == "integer" or key.endswith("-hex")):
                        bad.append(f"{name}: '{key}' is not documented")
                    continue
                wanted = rows[key][0].split(" or ")
                if found not in wanted and not (found == "integer" and "number" in wanted):
                    bad.append(f"{name}: '{key}' is {found}, want {rows[key][0]}")
    for key, (_, text) in rows.items():
        if key not in seen and not text.startswith("optional"):
            bad.append(f"{name}: '{key}' does not come")
    for line in sorted(set(bad)):
        print(line)
    sys.exit(1 if bad else 0)


main()

#!/usr/bin/env python3
"""Makes a table of the lines that client tests print for the matrix.

    client_matrix.py LOG [DOCUMENT]

LOG holds lines "matrix<TAB>client<TAB>packages<TAB>verdict…", one verdict a feature; of a client with several lines the
worst verdict counts. Prints the table; with DOCUMENT, puts it there between the marks <!-- matrix --> and
<!-- end -->. The exit code is 1 when a feature failed or was not proven.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/clients"))
from checks import FEATURES  # noqa: E402

ORDER = ("FAIL", "pass", "-")


def read_rows(text):
    rows = {}
    for line in text.splitlines():
        if not line.startswith("matrix\t"):
            continue
        _, client, packages, *verdicts = line.split("\t")
        known = rows.setdefault(client, (packages, ["-"] * len(FEATURES)))[1]
        known[:] = [min(pair, key=ORDER.index) for pair in zip(known, verdicts, strict=True)]
    return rows


def table_of(rows):
    lines = ["| client | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for client, (packages, verdicts) in rows.items():
        lines.append("| " + " | ".join([f"{client} ({packages})", *verdicts]) + " |")
    return "\n".join(lines)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    rows = read_rows(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace"))
    table = table_of(rows)
    print(table)
    if len(sys.argv) == 3:
        document = pathlib.Path(sys.argv[2])
        text = document.read_text()
        marked = re.sub(r"(<!-- matrix -->\n).*?(<!-- end -->)", lambda m: m[1] + table + "\n" + m[2], text, flags=re.S)
        document.write_text(marked)
    return 0 if rows and all(v == "pass" for _, verdicts in rows.values() for v in verdicts) else 1


if __name__ == "__main__":
    raise SystemExit(main())

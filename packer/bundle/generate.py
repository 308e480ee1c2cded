"""Generate what follows from the schema and from the table of errors, so that each is written down once.

`python -m packer.bundle.generate` writes the files, `--check` fails if one is not fresh:
edgert.fbs -> runtime_c/src/bundle/schema_tables.{h,c} (the verifier's tables), edgert/_schema.py (the Python reader's);
errors.def -> edgert/_errors.py, docs/errors.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packer.bundle.schema import SCALAR_BYTES, Field, load_schema

__all__ = ["ROOT", "generate", "main"]

ROOT = Path(__file__).resolve().parents[2]
_COMMAND = "python -m packer.bundle.generate"


@dataclass(frozen=True, slots=True)
class _Error:
    number: int
    name: str
    id: str
    sentence: str
    hint: str


def generate() -> dict[str, str]:
    """The text of every generated file by its path relative to the repository."""
    errors = _load_errors()
    return {
        "runtime_c/src/bundle/schema_tables.h": _c_header(),
        "runtime_c/src/bundle/schema_tables.c": _c_source(),
        "edgert/_schema.py": _python_schema(),
        "edgert/_errors.py": _python_errors(errors),
        "docs/errors.md": _errors_page(errors),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with --check compare them; the exit status."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description="Generate code from the schema and errors.def.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is not fresh")
    check = parser.parse_args(arguments).check
    stale = 0
    for name, text in generate().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{name} is not fresh: run {_COMMAND}", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


def _load_errors() -> tuple[_Error, ...]:
    text = (ROOT / "runtime_c/include/edgert/errors.def").read_text(encoding="utf-8")
    rows = re.findall(r'^X\((\d+), (\w+), "([^"]*)", "([^"]*)", "([^"]*)"\)$', text, re.MULTILINE)
    return tuple(_Error(int(number), *rest) for number, *rest in rows)


def _kind(field: Field) -> tuple[str, str]:
    """How the verifier treats a field: its class, and element size or table."""
    if field.type in SCALAR_BYTES:
        return ("SCALARS" if field.vector else "SCALAR"), str(SCALAR_BYTES[field.type])
    if field.type == "string":
        return ("TEXTS" if field.vector else "TEXT"), "0"
    if not field.vector:
        raise ValueError(f"field {field.name}: a table outside of a vector is not supported")
    return "TABLES", f"ERT_TABLE_{_upper(field.type)}"


def _upper(name: str) -> str:
    """GoldenTensor -> GOLDEN_TENSOR."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _c_header() -> str:
    lines = [
        f"/* Field ids of the bundle's metadata. Generated from edgert.fbs by `{_COMMAND}`; do not edit. */",
        "#ifndef ERT_BUNDLE_SCHEMA_TABLES_H",
        "#define ERT_BUNDLE_SCHEMA_TABLES_H",
        "",
        "enum {",
        *(f"  ERT_TABLE_{_upper(name)}," for name in load_schema()),
        "  ERT_TABLE_COUNT,",
        "};",
    ]
    for name, table in load_schema().items():
        lines += ["", "enum {", *(f"  ERT_FIELD_{_upper(name)}_{field.name.upper()}," for field in table.fields), "};"]
    return "\n".join([*lines, "", "#endif", ""])


def _c_source() -> str:
    lines = [
        f"/* The metadata's schema as tables. Generated from edgert.fbs by `{_COMMAND}`; do not edit. */",
        '#include "bundle/schema_tables.h"',
        "",
        '#include "bundle/flatbuffer.h"',
        "",
        "/* clang-format off */",
    ]
    for name, table in load_schema().items():
        lines += ["", f"static const ert_schema_field {_upper(name).lower()}_fields[] = {{"]
        for field in table.fields:
            kind, detail = _kind(field)
            lines.append(f'    {{"{field.name}", ERT_KIND_{kind}, {detail}}},')
        lines.append("};")
    lines += ["", "const ert_schema_table ert_schema[ERT_TABLE_COUNT] = {"]
    for name, table in load_schema().items():
        lines.append(f'    {{"{name}", {_upper(name).lower()}_fields, {len(table.fields)}}},')
    return "\n".join([*lines, "};", ""])


def _python_module(about: str, source: str, table: str, row: str, fields: Sequence[str]) -> list[str]:
    """The beginning of a module of one table, up to where it is assigned; `row` names its rows and has `fields`."""
    name, _, told = row.partition(": ")
    return [
        f'"""{about}. Generated from {source}; do not edit: run',
        f"`{_COMMAND}`.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final, NamedTuple",
        "",
        f'__all__ = ["{table}", "{name}"]',
        "",
        "",
        f"class {name}(NamedTuple):",
        f'    """{told}"""',
        "",
        *(f"    {field}" for field in fields),
        "",
        "",
    ]


def _python_schema() -> str:
    fields = ("name: str", 'type: str  # as in the schema: "ulong", "string", "[long]", "[Tensor]"', "default: int")
    row = "Field: A field; its id is its position in the table."
    lines = _python_module("The metadata schema", "edgert.fbs", "TABLES", row, fields)
    lines.append("TABLES: Final[dict[str, tuple[Field, ...]]] = {")
    for name, table in load_schema().items():
        lines.append(f'    "{name}": (')
        for field in table.fields:
            kind = f"[{field.type}]" if field.vector else field.type
            lines.append(f'        Field("{field.name}", "{kind}", {field.default}),')
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def _python_errors(errors: tuple[_Error, ...]) -> str:
    fields = ("number: int", "name: str", "id: str", "sentence: str", "hint: str")
    row = "Error: One error: number of the C API, names, what happened, what to do."
    lines = _python_module("Every error of the runtime", "errors.def", "ERRORS", row, fields)
    lines.append("ERRORS: Final = (")
    for e in errors:
        texts = (f'"{text}"' for text in (e.name, e.id, e.sentence, e.hint))
        lines += ["    Error(", *(f"        {value}," for value in (e.number, *texts)), "    ),"]
    return "\n".join([*lines, ")", ""])


def _errors_page(errors: tuple[_Error, ...]) -> str:
    lines = [
        f"<!-- Generated from errors.def; do not edit: run `{_COMMAND}`. -->",
        "",
        "# Errors",
        "",
        "Every failure has a stable id. The C API returns its number, and `edgert_last_error()` gives a message of at",
        "most four lines: what, where, expected and got, what to do. In Python that is the text of the exception.",
        "",
        "| number | id | C | meaning | what to do |",
        "|---|---|---|---|---|",
    ]
    for e in errors:
        lines.append(f"| {e.number} | `{e.id}` | `EDGERT_ERROR_{e.name}` | {e.sentence} | {e.hint} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())

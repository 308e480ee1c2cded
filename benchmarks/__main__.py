"""`python -m benchmarks [dense footprint overhead conformance im2col planner scaling]`: run the named benchmarks, or
all of them."""

from __future__ import annotations

import argparse
import importlib

NAMES = ("dense", "footprint", "overhead", "conformance", "im2col", "planner", "scaling")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which benchmarks; all if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer networks and repetitions")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        importlib.import_module(f"benchmarks.{name}").run(quick=arguments.quick)


if __name__ == "__main__":
    main()

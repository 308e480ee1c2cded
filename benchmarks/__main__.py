"""`python -m benchmarks [NAME [OPTIONS]]`: run one benchmark, or all of them. Some have options of their own."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "cpu",
    "layers",
    "overhead",
    "conformance",
    "im2col",
    "planner",
    "scaling",
    "operators",
    "kernels_static",
    "cuda_codegen",
    "cuda_predict",
    "cuda_pack",
)
WITH_OPTIONS = ("cpu", "layers", "kernels_static", "cuda_codegen", "cuda_predict")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="all of them, with fewer networks and repetitions")
    parsers = parser.add_subparsers(dest="name", metavar="NAME", help=", ".join(NAMES))
    for name in NAMES:
        own = parsers.add_parser(name)
        if name in WITH_OPTIONS:
            importlib.import_module(f"benchmarks.{name}").add_arguments(own)
        else:
            own.add_argument("--quick", action="store_true", default=argparse.SUPPRESS, help="a shorter run")
    arguments = parser.parse_args()
    for name in (arguments.name,) if arguments.name else NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        if arguments.name in WITH_OPTIONS:
            module.main(arguments)
        else:
            module.run(quick=arguments.quick)


if __name__ == "__main__":
    main()

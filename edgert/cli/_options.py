"""Options that several verbs share, spelt and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Activations",
    "AllowNative",
    "Bgr",
    "BundlePath",
    "CodeCache",
    "DeviceCode",
    "Duration",
    "Emulate",
    "Inputs",
    "Integrity",
    "Isa",
    "Json",
    "Layout",
    "Mean",
    "Pins",
    "Precision",
    "Runs",
    "Shapes",
    "Std",
    "Target",
    "Threads",
    "Warmup",
    "Winograd",
]

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle, model.edge.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Target = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="Program to use; default: the first that can run here.")
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", metavar="N", min=0, help="At most, and the program for as many cores; 0: the usable cores."
    ),
]
Isa = Annotated[str | None, typer.Option("--isa", metavar="NAME", help="Force one that `edgert devices` lists.")]
AllowNative = Annotated[
    bool, typer.Option("--allow-native", help="Run the bundle's own code on a device; trust who packed it.")
]
Emulate = Annotated[bool, typer.Option("--emulate", help="Run a program for a device on an emulator of it.")]
CodeCache = Annotated[
    str | None,
    typer.Option("--code-cache", metavar="FOLDER", help="Keeps what a driver translates; '': nothing does."),
]
Integrity = Annotated[
    str,
    typer.Option(
        "--integrity", metavar="full|metadata", help="full: hash everything; metadata: leave weights untouched."
    ),
]
Warmup = Annotated[int, typer.Option("--warmup", metavar="N", min=0, help="Runs before the counted ones.")]
Runs = Annotated[int, typer.Option("--runs", metavar="N", min=0, help="Counted runs; 0: as many as fit in --duration.")]
Duration = Annotated[float, typer.Option("--duration", metavar="SECONDS", min=0, help="For so long, when --runs is 0.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help="An input: npy, npz, pb, png or jpg; repeatable."),
]
Mean = Annotated[
    str,
    typer.Option(
        "--mean", metavar="NUMBERS", help="Images: subtracted from pixels 0..255; one number or one a channel."
    ),
]
Std = Annotated[
    str, typer.Option("--std", metavar="NUMBERS", help="Images: divides after the mean; one number or one a channel.")
]
Layout = Annotated[
    str | None,
    typer.Option("--layout", metavar="nchw|nhwc", help="Images: the order, where the shape leaves it open."),
]
Bgr = Annotated[bool, typer.Option("--bgr", help="Images: the network wants blue first.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x224x224",
        help="Fix an input's shape; repeatable. An unknown first dimension is 1 otherwise.",
    ),
]
Pins = Annotated[
    list[str] | None, typer.Option("--pin", metavar="NAME=FILE", help="Make an input a constant; npy, npz or pb.")
]
Precision = Annotated[
    str, typer.Option("--precision", metavar="f32|f16|bf16", help="Of weights, and of products where that is faster.")
]
Winograd = Annotated[
    str,
    typer.Option(
        "--winograd", metavar="off|strict|fast", help="For 3x3 convolutions; strict: as exact as other algorithms."
    ),
]
Activations = Annotated[
    str, typer.Option("--activations", metavar="f32|f16", help="How a GPU stores what lies between operators.")
]
DeviceCode = Annotated[
    str, typer.Option("--device-code", metavar="cubin|ptx", help="For a GPU; PTX is there in any case.")
]

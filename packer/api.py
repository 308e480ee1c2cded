"""The packer's one entry: a model goes in, a bundle comes out."""

from __future__ import annotations

import inspect
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgert import __version__
from packer.assembled import assembled
from packer.bundle.model import MAX_RANK, MOST_PROGRAMS, Bundle, Golden, Place, Program
from packer.bundle.writer import write_bundle
from packer.errors import ModelError
from packer.golden import make_golden, sample
from packer.importers import import_onnx
from packer.ir import DType, Graph, TensorType
from packer.passes import optimize
from packer.passes.recognise_quantized import recognise_quantized
from packer.planner import Plan, make_plans, worth_their_cores
from packer.planner.budget import within_budget
from packer.planner.rounding import rounding_of
from packer.planner.select import Strategy
from packer.tune.measured import Measured
from targets.base import Layout, Target, TargetError, resolve

__all__ = ["PackReport", "ProgramReport", "compile_model", "pack"]

Progress = Callable[[str, float], None]

_OF_GPUS = ("weight_rounding", "activations", "placement", "device_code", "cuda_route")  # settings


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """One program of a bundle. Sizes in bytes; `arena_floor` is the lower bound of the arena (largest sum of live
    tensors).

    `rounded` are the layers whose weights are rounded, each with its relative error, ||y - exact y|| / ||exact y|| over
    random inputs; `halves` tells whether values are stored as float16. `error` is the relative error that both make of
    the sample's outputs, the largest if there are several; None without a sample.
    """

    target: str
    arch: str
    cores: int
    steps: int
    arena_bytes: int
    arena_floor: int
    weights_bytes: int
    rounded: tuple[tuple[str, float], ...] = ()
    halves: bool = False
    error: float | None = None


@dataclass(frozen=True, slots=True)
class PackReport:
    """What `pack` made: the file, its size in bytes, its inputs with their types, its programs, and the seconds it
    took."""

    path: Path
    bytes: int
    inputs: tuple[tuple[str, str], ...]
    programs: tuple[ProgramReport, ...]
    seconds: float


def pack(
    model: str | Path | Any,
    output: str | Path,
    *,
    targets: Sequence[str] = ("cpu",),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    cores: Sequence[int] = (),
    implementation: str | None = None,
    winograd: str = "strict",
    precision: str = "f32",
    weight_rounding: str = "auto",
    activations: str = "f32",
    placement: str = "cost",
    device_code: str = "cubin",
    cuda_route: str = "direct",
    search: str | Strategy = "exact",
    partial_sums: bool = False,
    measured: Mapping[str, Measured] | None = None,
    golden: bool = True,
    atol: float = 1e-6,
    rtol: float | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Compile an ONNX model for `targets` and write one bundle to `output`.

    `model` is a path or an onnx.ModelProto. `shapes` pins the shapes of inputs by name, `constants` the values. Each
    target gets a program for every number of `cores` (none: those of its board that save time); they share weights, and
    give the same bits unless there are `partial_sums`. `search` is the planner's strategy, or its name.
    `implementation` is used by every node that offers it, such as "im2col-nhwc" by convolutions (not in the programs
    that come behind those of a GPU); by default the cheapest one is. `winograd` says which of Winograd's algorithms may
    be chosen: "off" none, "strict" those whose error stays near that of others, "fast" all. `precision` is what weights
    are rounded to: "f32" not at all, "f16", or "bf16", with which inputs are rounded too where the target has faster
    products of bf16. A layer with a weight beyond the type's largest number stays float32; on GPUs "f16" allows
    products of halves. There `weight_rounding` says whether weights are rounded to the 20 bits that an instruction
    holds: "off", "20bit", or while outputs move by less than 1e-3 of the largest number ("auto") or by less than a
    number that is given, small layers staying exact first; `activations` how floats are stored, "f32" or "f16";
    `placement` whether operators run where they cost least ("cost") or on the GPU wherever they can ("device");
    `device_code` whether there is machine code beside the PTX ("cubin"), or PTX alone ("ptx"), which the device
    compiles when it first loads it; `cuda_route` whether sparse convolutions become code directly ("direct"), or by way
    of CUDA C++ for their shapes, whose multiply-adds of zeros are deleted ("template"; the same results, float32 only).
    Behind a target with a GPU come the programs of its processor alone.
    `measured` has what is known of the devices that targets (by name) stand for; without it costs are those of the
    targets' models, and the same model gives the same bundle anywhere.
    With `golden` the bundle carries a sample and the tolerances (|got - want| <= atol + rtol * max|want|) its self-test
    uses; without `rtol` it is 1e-4, or with rounded weights four times what rounding them does to the sample (more
    where inputs are rounded too), if that is more.
    Raises packer.errors.ModelError for a model that cannot be packed, targets.base.TargetError for an unknown or
    unfit target or implementation. Nothing is written unless everything succeeded.
    """
    started = time.perf_counter()
    path = Path(output)
    _require_writable(path, model)
    bundle = compile_model(
        model,
        targets=targets,
        shapes=shapes,
        constants=constants,
        cores=cores,
        implementation=implementation,
        winograd=winograd,
        precision=precision,
        weight_rounding=weight_rounding,
        activations=activations,
        placement=placement,
        device_code=device_code,
        cuda_route=cuda_route,
        search=search,
        partial_sums=partial_sums,
        measured=measured,
        golden=golden,
        atol=atol,
        rtol=rtol,
        progress=progress,
    )
    size = write_bundle(bundle, path, lambda fraction: progress("write", fraction) if progress else None)
    reports = tuple(_report(program) for program in bundle.programs)
    first = bundle.programs[0]
    inputs = tuple((first.tensors[number].name, _told(first.tensors[number].type)) for number in first.inputs)
    return PackReport(path, size, inputs, reports, time.perf_counter() - started)


def compile_model(
    model: str | Path | Any,
    *,
    targets: Sequence[str] = ("cpu",),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    cores: Sequence[int] = (),
    implementation: str | None = None,
    winograd: str = "strict",
    precision: str = "f32",
    weight_rounding: str = "auto",
    activations: str = "f32",
    placement: str = "cost",
    device_code: str = "cubin",
    cuda_route: str = "direct",
    search: str | Strategy = "exact",
    partial_sums: bool = False,
    measured: Mapping[str, Measured] | None = None,
    golden: bool = True,
    atol: float = 1e-6,
    rtol: float | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Everything `pack` does but writing the file."""
    known = measured or {}
    settings = {
        "winograd": winograd,
        "precision": precision,
        "weight_rounding": weight_rounding,
        "activations": activations,
        "placement": placement,
        "device_code": device_code,
        "cuda_route": cuda_route,
    }
    if isinstance(targets, str):
        raise TargetError(f"targets: expected a list of names, got the text '{targets}': targets=['{targets}']")
    asked = {resolve(name, **settings).name for name in targets}
    chosen = _with_fallbacks(targets, settings)
    if not any(target.device for target in chosen):
        _expect_usual(settings, targets)
    chosen = [known[target.name].on(target) if target.name in known else target for target in chosen]
    if not chosen:
        raise TargetError("no target to pack for was given")
    counts = {target.name: _core_counts(target, cores) for target in chosen}
    if (total := sum(map(len, counts.values()))) > MOST_PROGRAMS:
        raise TargetError(
            f"programs of a bundle: expected at most {MOST_PROGRAMS}, got {total}: name fewer targets or cores"
        )
    if not all(math.isfinite(tolerance) and tolerance >= 0 for tolerance in (atol, rtol or 0.0)):
        raise ValueError(f"tolerances: expected finite numbers of 0 or more, got atol {atol} and rtol {rtol}")
    tell = progress or (lambda stage, fraction: None)
    for target in chosen:
        target.assemble(())  # so that what is missing for it is said before anything takes long
    tell("import", 0.0)
    # Rounding to bytes makes jumps of tiny differences: the sample is computed by the very sums of integers.
    imported = recognise_quantized(import_onnx(model, shapes=shapes or {}, constants=constants or {}))
    tell("optimize", 0.0)
    graph = optimize(imported)
    _expect_ranks(graph)
    inputs = {name: sample(name, graph.type(name)) for name in graph.inputs}
    plans: list[tuple[Target, Plan]] = []
    for number, target in enumerate(chosen):
        tell("plan", number / len(chosen))
        records = known[target.name].of(graph, target) if target.name in known else None
        made = make_plans(
            graph, target, counts[target.name],
            implementation=implementation if target.name in asked else None,
            search=search, partial_sums=partial_sums, records=records,
        )  # fmt: skip
        if not cores and not target.device and isinstance(search, str):  # others measure what plans take
            made = worth_their_cores(made)
        plans += ((target, within_budget(plan, inputs)) for plan in made)
    roundings = [rounding_of(plan) for _, plan in plans]
    goldens: tuple[Golden, ...] = ()
    errors: Sequence[float | None] = [None] * len(plans)
    if golden:
        tell("golden", 0.0)
        answers, errors = make_golden(imported, atol, rtol, graph, roundings)
        goldens = (answers,)
    programs = []
    for number, ((target, plan), rounding, error) in enumerate(zip(plans, roundings, errors, strict=True)):
        tell("lower", number / len(plans))
        program = plan.program(rounding.errors, error)
        programs.append(assembled(program, target, lambda done, count: tell("assemble", done / count)))
    return Bundle(f"edgert {__version__}", graph.name, tuple(programs), goldens)


def _core_counts(target: Target, cores: Sequence[int]) -> tuple[int, ...]:
    """The numbers of cores to plan for: those asked for, but where a device does the work."""
    return target.core_counts if target.device else tuple(dict.fromkeys(cores or target.core_counts))


def _with_fallbacks(targets: Sequence[str], settings: Mapping[str, str]) -> list[Target]:
    """The targets of these names, each once, and behind those with a device the processors beside it."""
    found: dict[str, Target] = {}
    for name in targets:
        target = resolve(name, **settings)
        found.setdefault(target.name, target)
        if target.fallback:
            found.setdefault(target.fallback, resolve(target.fallback, **settings))
    return list(found.values())


def _expect_usual(settings: Mapping[str, str], targets: Sequence[str]) -> None:
    """Raise TargetError for a setting of GPUs that is another than the default, where there is none."""
    usual = inspect.signature(compile_model).parameters
    for name in _OF_GPUS:
        if settings[name] != usual[name].default:
            raise TargetError(
                f"{name.replace('_', '-')} {settings[name]}: it is for targets with a GPU, such as jetson, "
                f"got {', '.join(targets)}"
            )


def _expect_ranks(graph: Graph) -> None:
    """Raise ModelError for a tensor that no bundle can hold."""
    for name, value in graph.values.items():
        if len(value.type.shape) > MAX_RANK:
            raise ModelError(
                f"tensor '{name}' has too many dimensions",
                expected=f"at most {MAX_RANK}",
                got=str(len(value.type.shape)),
                hint="reshape it in the model, neighbouring dimensions to one",
            )


def _require_writable(path: Path, model: object) -> None:
    """Raise ModelError, before any work, if no bundle can be put at `path`, or if that is the model's own."""
    if not path.parent.is_dir():
        raise ModelError(
            "the output folder does not exist",
            where=str(path.parent),
            expected="an existing folder",
            hint=f"mkdir -p '{path.parent}'",
        )
    if path.is_dir():
        raise ModelError("the output is a folder", where=str(path), expected="a file", hint=f"-o '{path}/model.edge'")
    if path.exists() and not path.is_file():
        raise ModelError("the output is no file", where=str(path), expected="a file, or nothing", hint="-o model.edge")
    if not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        raise ModelError("the output folder cannot be written to", where=str(path.parent), hint="-o OTHER/model.edge")
    if isinstance(model, str | Path) and path.exists() and Path(model).exists() and path.samefile(model):
        raise ModelError("the output would replace the model", where=str(path), hint="-o model.edge")


def _told(type: TensorType) -> str:
    """An element type and a shape, as people read them."""
    return f"{type.dtype.numpy.name}[{','.join(map(str, type.shape))}]"


def _report(program: Program) -> ProgramReport:
    weights = sum(t.data.nbytes for t in program.tensors if t.place is Place.SEGMENT and t.data is not None)
    plan = json.loads(program.plan)
    return ProgramReport(
        program.target,
        program.arch,
        program.cores,
        len(program.steps),
        program.arena_bytes,
        program.arena_floor,
        weights,
        tuple(
            (decision["nodes"][0] if decision["nodes"] else decision["outputs"][0]["name"], decision["rounding"])
            for decision in plan["decisions"]
            if decision["rounding"] is not None
        ),
        any(tensor.layout is Layout.PLANES and tensor.type.dtype is DType.F16 for tensor in program.tensors),
        plan["rounding"],
    )

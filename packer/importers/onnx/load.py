"""Reads an ONNX file into a protobuf, with checks enough to tell a model from garbage."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from packer.errors import ModelError

__all__ = ["load", "opsets_of"]

_LARGEST_FILE = (1 << 31) - 1  # what protobuf can parse


def load(path_or_model: str | os.PathLike[str] | onnx.ModelProto) -> tuple[onnx.ModelProto, Path | None]:
    """The model, and the folder its external data must lie in (None for a model in memory).

    Raises ModelError for a file that cannot be read or is no ONNX model.
    """
    if isinstance(path_or_model, onnx.ModelProto):
        _check(path_or_model, "model in memory")
        return path_or_model, None
    path = Path(path_or_model)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ModelError("the model is no file", where=str(path), expected="the path of an .onnx file")
        if size > _LARGEST_FILE:
            raise ModelError(
                "the model file is too large",
                where=str(path),
                expected=f"at most {_LARGEST_FILE} bytes",
                got=f"{size}",
                hint="save it with external data (onnx.save_model(..., save_as_external_data=True))",
            )
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            "the model cannot be read",
            where=str(path),
            got=error.strerror or str(error),
            hint="check the path and its permissions",
        ) from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise _not_onnx(str(path), "bytes that are no protobuf of an ONNX model") from error
    _check(model, str(path))
    return model, path.resolve().parent


def opsets_of(imports: object) -> dict[str, int]:
    """Opset version by domain; the default domain is the empty name."""
    return {("" if entry.domain == "ai.onnx" else entry.domain): int(entry.version) for entry in imports}  # type: ignore[attr-defined]


def _not_onnx(where: str, got: str) -> ModelError:
    return ModelError(
        "not an ONNX model",
        where=where,
        expected="an .onnx protobuf with a graph and an opset",
        got=got,
        hint="check that the file was downloaded completely and is no Git LFS pointer",
    )


def _is_text(message: Message) -> bool:
    """Whether every string in a message is UTF-8 (protobuf gives bytes for one that is not)."""
    if isinstance(message, onnx.TensorProto):  # whose fields are large
        return isinstance(message.name, str) and all(map(_is_text, message.external_data))
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes | Message) or not isinstance(value, Iterable) else value
        if field.type == field.TYPE_MESSAGE and not all(map(_is_text, values)):
            return False
        if field.type == field.TYPE_STRING and not all(isinstance(text, str) for text in values):
            return False
    return True


def _check(model: onnx.ModelProto, where: str) -> None:
    if not _is_text(model):
        raise _not_onnx(where, "names that are no UTF-8")
    if not model.HasField("graph"):
        raise _not_onnx(where, "no graph")
    if not model.graph.output:
        raise _not_onnx(where, "a graph without outputs")
    opsets = opsets_of(model.opset_import)
    if not opsets:
        raise _not_onnx(where, "no opset_import")
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("", newest)
    if not 1 <= version <= newest:
        raise ModelError(
            "the model's opset is not known",
            where=where,
            expected=f"opset 1 to {newest}",
            got=str(version),
            hint="install a newer onnx package, or convert with onnx.version_converter",
        )

"""Results of compilers on disk, by content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cache"]


@dataclass(frozen=True, slots=True)
class Cache:
    """Files in a folder, each a line of JSON and then bytes, named by the SHA-256 of all that they depend on.

    Files appear whole or not at all, so processes may share the folder, and one that is interrupted leaves what it has.
    A file that cannot be read counts as absent.
    """

    folder: Path

    @classmethod
    def of_user(cls) -> Cache:
        """The one of the user: $XDG_CACHE_HOME/edgert/cuda."""
        return cls(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgert" / "cuda")

    def get(self, key: Iterable[str]) -> tuple[dict[str, Any], bytes] | None:
        """The facts and the bytes that were put under this key."""
        try:
            facts, _, content = self._path(key).read_bytes().partition(b"\n")
            found = json.loads(facts)
        except (OSError, ValueError):
            return None
        digest = found.pop("sha256", None) if isinstance(found, dict) else None
        return (found, content) if digest == hashlib.sha256(content).hexdigest() else None

    def put(self, key: Iterable[str], facts: Mapping[str, Any], content: bytes) -> None:
        """Keep facts and bytes under this key."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({**facts, "sha256": hashlib.sha256(content).hexdigest()})
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(head.encode() + b"\n" + content)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    def _path(self, key: Iterable[str]) -> Path:
        digest = hashlib.sha256()
        for part in key:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        name = digest.hexdigest()
        return self.folder / name[:2] / name[2:]

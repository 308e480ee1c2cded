"""Results of compilers on disk, by content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from targets.base import TargetError

__all__ = ["Cache"]


@dataclass(frozen=True, slots=True)
class Cache:
    """Files in a folder, named by the SHA-256 of all that they depend on: a line of SHA-256 of the rest, a line of
    facts as JSON, bytes.

    Files appear whole or not at all, so processes may share the folder, and one that is killed leaves what it has.
    A file that cannot be read, or is damaged, counts as absent; a folder that cannot be written keeps nothing.
    `trim` removes what was used longest ago beyond `most` bytes.
    """

    folder: Path
    most: int = 2 << 30

    @classmethod
    def of_user(cls) -> Cache:
        """The one of the user: $XDG_CACHE_HOME/edgert/cuda, of $EDGERT_CACHE_BYTES."""
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgert" / "cuda"
        limit = os.environ.get("EDGERT_CACHE_BYTES")
        if not limit:
            return cls(folder)
        if not limit.isdecimal():
            raise TargetError(f"EDGERT_CACHE_BYTES: expected a number of bytes, got '{limit}'")
        return cls(folder, int(limit))

    def get(self, key: Iterable[str]) -> tuple[dict[str, Any], bytes] | None:
        """The facts and the bytes that were put under this key."""
        path = self._path(key)
        try:
            digest, _, rest = path.read_bytes().partition(b"\n")
            os.utime(path)  # it was used now
        except OSError:
            return None
        if digest.decode("ascii", "replace") != hashlib.sha256(rest).hexdigest():
            return None
        facts, _, content = rest.partition(b"\n")
        return json.loads(facts), content

    def put(self, key: Iterable[str], facts: Mapping[str, Any], content: bytes) -> None:
        """Keep facts and bytes under this key."""
        path, rest = self._path(key), json.dumps(dict(facts)).encode() + b"\n" + content
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                try:
                    file.write(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
                    file.close()
                    os.replace(file.name, path)
                except BaseException:
                    os.unlink(file.name)
                    raise

    def trim(self) -> None:
        """Remove files used longest ago until `most` bytes are left; others may use or remove them meanwhile."""
        found = []
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(OSError):
                info = path.stat()
                found.append((info.st_mtime_ns, path, info.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self.most:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, key: Iterable[str]) -> Path:
        digest = hashlib.sha256()
        for part in key:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        name = digest.hexdigest()
        return self.folder / name[:2] / name[2:]

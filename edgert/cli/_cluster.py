"""Boards of a Dask cluster that measure: each worker is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from edgert.fingerprint import Device
    from edgert.measure import StepMeasurement

__all__ = ["Board", "boards"]

_PATIENCE = 10.0  # seconds for a cluster to answer
_CHECK = 2.0  # seconds after which a silent board is looked for


class Board:
    """A worker of the cluster and the device it runs on."""

    def __init__(self, client: Any, name: str, device: Device) -> None:
        self._client, self.name, self.device = client, name, device

    def measure(self, path: Path, step: int, weights: str) -> StepMeasurement:
        """measure_step there."""
        from edgert.measure import measure_step

        found: StepMeasurement = self._call(measure_step, path, step, weights)
        return found

    def run(self, path: Path, threads: int) -> float:
        """measure_run there."""
        from edgert.measure import measure_run

        return float(self._call(measure_run, path, threads))

    def _call(self, function: Callable[..., Any], path: Path, *arguments: object) -> Any:
        """What the function gives there; raises ConnectionError if the board has left the cluster."""
        from edgert.measure import with_bundle

        client, only = self._client, [self.name]
        bundle = client.scatter(path.read_bytes(), workers=only, hash=False)
        future = client.submit(with_bundle, function, bundle, *arguments, workers=only, pure=False)
        while True:
            try:
                return future.result(timeout=_CHECK)
            except TimeoutError:
                if self.name not in client.nthreads():
                    raise ConnectionError(f"{self.name} has left the cluster") from None


@contextmanager
def boards(address: str) -> Iterator[list[Board]]:
    """The boards of the cluster whose scheduler is at `address`; raises InvalidArgumentError if none answers."""
    from distributed import Client

    from edgert.fingerprint import this_device

    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidArgumentError(
            f"--cluster: no scheduler answers at {address} ({error})\n"
            "Start one: dask scheduler; and on each board: dask worker tcp://HOST:8786 --nthreads 1"
        ) from None
    with client:
        found = client.run(this_device, on_error="return")
        failed = [f"{name}: {what}" for name, what in found.items() if isinstance(what, Exception)]
        if failed or not found:
            raise InvalidArgumentError(
                f"--cluster: {failed[0] if failed else 'the cluster has no workers'}\n"
                f"On each board: pip install edgert 'dask[distributed]'; dask worker {address} --nthreads 1"
            )
        yield [Board(client, name, device) for name, device in sorted(found.items())]

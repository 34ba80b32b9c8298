"""Where a target can run: the devices that are present, and the settings they run under."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attnspec import arrays
from attnspec.loading import Loaded
from attnspec.usage import UsageError


def devices_of(loaded: Loaded, wanted: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """The devices to run on, and those that the target names and that are not present, with the
    reason. Raises UsageError if one that is `wanted` is not present."""
    here = devices_present(loaded.declaration.arrays)
    if wanted:
        for device in wanted:
            if not _present(device, here):
                raise UsageError(f"device {device!r} is not present; present: {', '.join(here)}")
        return list(wanted), {}
    named = loaded.declaration.devices
    if named is None:
        return here, {}
    absent = {d: f"{d} is not present here" for d in named if not _present(d, here)}
    return [d for d in named if d not in absent], absent


def devices_present(kind: str) -> list[str]:
    """`cpu`, and `cuda` where arrays of this kind can live there."""
    if kind == "numpy" or not arrays.has_torch():
        return ["cpu"]
    return ["cpu", "cuda"] if arrays.torch().cuda.is_available() else ["cpu"]


@contextmanager
def one_thread(loaded: Loaded) -> Iterator[None]:
    """Keeps torch to one thread meanwhile: sums are then added in one order, so that a run gives
    the same results however many processes it has."""
    if loaded.declaration.arrays != "torch":
        yield
        return
    torch = arrays.torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device_settings(loaded: Loaded, devices: Sequence[str]) -> dict[str, str]:
    """What a report says about the machine: processor, device, and how it multiplies."""
    settings = {"python": platform.python_version(), "cpu": platform.machine()}
    if loaded.declaration.arrays == "torch":
        torch = arrays.torch()
        settings["torch"] = torch.__version__
        settings["torch threads"] = str(torch.get_num_threads())
    cuda = [d for d in devices if d.startswith("cuda")]
    if not cuda:
        settings["cuda"] = "nothing ran on CUDA"
        return settings
    torch = arrays.torch()
    matmul = torch.backends.cuda.matmul
    settings["cuda"] = torch.cuda.get_device_name(cuda[0])
    settings["TF32 in matmul"] = str(matmul.allow_tf32)
    settings["TF32 in cuDNN"] = str(torch.backends.cudnn.allow_tf32)
    settings["reduced-precision reduction"] = (
        f"fp16 {matmul.allow_fp16_reduced_precision_reduction}, "
        f"bf16 {matmul.allow_bf16_reduced_precision_reduction}"
    )
    return settings


def _present(device: str, here: list[str]) -> bool:
    kind, _, number = device.partition(":")
    if kind not in here:
        return False
    return not number or int(number) < arrays.torch().cuda.device_count()

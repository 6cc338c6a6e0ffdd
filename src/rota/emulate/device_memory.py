"""Memory of an emulated device.

Who holds how much, and the failure of the one who asks for too much. Like the caching allocators of
training frameworks, what a job once held at the peak of a step stays with it until it ends.
"""

from __future__ import annotations

from rota.core.errors import ConfigError, RotaError

_ROUNDING_MIB = 1e-6
"""A byte more or less of sums in MiB is rounding."""


class DeviceError(RotaError):
    """A device fails a job. `rota_reason` is the word by which a scheduler hears of it."""

    rota_reason = "device-failed"


class OutOfDeviceMemory(DeviceError):
    """A job asked for more memory than its device has left. Only the asking job fails."""

    rota_reason = "out-of-device-memory"

    def __init__(
        self, *, device: str, holder: str, asked: float, free: float, capacity: float, others: str
    ) -> None:
        held = f" (held by {others})" if others else ""
        super().__init__(
            f"{device}: job {holder!r} asked for {asked:.0f} MiB, {free:.0f} of {capacity:.0f} MiB "
            f"are free{held}; use a smaller batch or a device with more memory"
        )
        self.device = device
        self.holder = holder


class DeviceMemory:
    """What is held on one device, by holder."""

    def __init__(self, device: str, capacity_mib: float) -> None:
        if not capacity_mib > 0.0:
            raise ConfigError(
                f"{device}: a memory of {capacity_mib} MiB is not possible; it must be above 0"
            )
        self.device = device
        self.capacity_mib = capacity_mib
        self._held: dict[str, float] = {}

    @property
    def used_mib(self) -> float:
        """Held by all together."""
        return sum(self._held.values())

    @property
    def free_mib(self) -> float:
        """Not held by anybody."""
        return self.capacity_mib - self.used_mib

    @property
    def holders(self) -> dict[str, float]:
        """MiB by holder."""
        return dict(self._held)

    def hold(self, holder: str, wanted_mib: float) -> None:
        """Let a job hold at least so many MiB: what it keeps at its start, its peak in a step."""
        mine = self._held.get(holder, 0.0)
        if wanted_mib <= mine:
            return
        if wanted_mib - mine > self.free_mib + _ROUNDING_MIB:
            others = ", ".join(
                f"{name} {mib:.0f}" for name, mib in self._held.items() if name != holder
            )
            raise OutOfDeviceMemory(
                device=self.device,
                holder=holder,
                asked=wanted_mib,
                free=self.free_mib + mine,
                capacity=self.capacity_mib,
                others=others,
            )
        self._held[holder] = wanted_mib

    def release(self, holder: str) -> float:
        """Give back everything of a holder that ended, in whatever way; how much it was."""
        return self._held.pop(holder, 0.0)

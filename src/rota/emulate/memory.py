"""Memory of an emulated device.

Who holds how much, and the failure of the one who asks for too much.

Like the caching allocators of training frameworks, what a job once held at the peak of a step stays
with it until it ends (`caching=True`). Without that the difference between peak and persistent is
given back after every step, so that jobs that take turns on a device can use the same memory.
"""

from __future__ import annotations

from rota.core.errors import ConfigError, RotaError

REASON = "out-of-device-memory"
"""The reason by which this failure is reported to a scheduler."""
_ROUNDING_MIB = 1e-6
"""A byte more or less of sums in MiB is rounding."""


class OutOfDeviceMemory(RotaError):
    """A job asked for more memory than its device has left. Only the asking job fails."""

    reason = rota_reason = REASON

    def __init__(
        self, *, device: str, holder: str, asked: float, free: float, capacity: float, others: str
    ) -> None:
        super().__init__(
            f"{device}: job {holder!r} asked for {asked:.0f} MiB, {free:.0f} of {capacity:.0f} MiB "
            "are free"
            f"{f' (held by {others})' if others else ''}; use a smaller batch or a device with "
            "more memory"
        )
        self.device = device
        self.holder = holder


class DeviceMemory:
    """What is held on one device, by holder."""

    def __init__(self, device: str, capacity_mib: float, *, caching: bool = True) -> None:
        if not capacity_mib > 0.0:
            raise ConfigError(
                f"{device}: a memory of {capacity_mib} MiB is not possible; it must be above 0"
            )
        self.device = device
        self.capacity_mib = capacity_mib
        self.caching = caching
        self._held: dict[str, float] = {}
        self._persistent: dict[str, float] = {}

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

    def hold(self, holder: str, persistent_mib: float) -> None:
        """Take what a job keeps from its start to its end."""
        self._grow(holder, persistent_mib)
        self._persistent[holder] = persistent_mib

    def peak(self, holder: str, peak_mib: float) -> None:
        """Grow to the peak of a step that begins."""
        self._grow(holder, peak_mib)

    def trim(self, holder: str) -> None:
        """A step ended: give back what only its peak needed, unless it is kept for the next."""
        if not self.caching and holder in self._held:
            self._held[holder] = self._persistent.get(holder, 0.0)

    def release(self, holder: str) -> float:
        """Give back everything of a holder that ended, in whatever way; how much it was."""
        self._persistent.pop(holder, None)
        return self._held.pop(holder, 0.0)

    def _grow(self, holder: str, wanted: float) -> None:
        mine = self._held.get(holder, 0.0)
        if wanted <= mine:
            return
        if wanted - mine > self.free_mib + _ROUNDING_MIB:
            others = ", ".join(
                f"{name} {mib:.0f}" for name, mib in self._held.items() if name != holder
            )
            raise OutOfDeviceMemory(
                device=self.device,
                holder=holder,
                asked=wanted,
                free=self.free_mib + mine,
                capacity=self.capacity_mib,
                others=others,
            )
        self._held[holder] = wanted

"""What a scheduler can know of pairs it has never run.

Speeds taken over from the most similar reference model.

As in Gavel (Narayanan et al., OSDI'20, section 6): some models of the catalogue are *references*,
and all pairs of references are measured on all types. An arriving job is run for a moment beside
each reference on each type with probability `profiled_fraction`; the gaps of its row are filled by
matrix completion, and the reference with the nearest row (cosine distance) stands for the job from
then on:

    estimate(job, partner) = pair rate(reference, partner's reference) / rate(reference)  x  rate(job)

Speeds of a job alone are always known, and jobs always progress at their true speed.

Jobs with several GPUs are treated in the same way, each number of GPUs apart: references are those
of the reference models that were measured with that number. Where none was, there is nothing to
compare with and the true value is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from rota.core.arrays import BoolArray, FloatArray
from rota.core.errors import ConfigError, UnknownName
from rota.profiles.catalogue import Catalogue
from rota.profiles.completion import complete
from rota.profiles.true_speeds import TrueSpeeds

_SAME = 1e-12
"""Cosines closer than this are equal; then the Euclidean distance decides."""


class Estimator(TrueSpeeds):
    """A catalogue in which pairs of jobs were not all measured.

    `rate` and `pair_rate` are the truth. All draws follow from `seed` and from the number of the
    draw, so an estimator has no state that a checkpoint would have to keep.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        profiled_fraction: float = 1.0,
        reference_models: int = 0,
        seed: int = 0,
    ) -> None:
        if not 0 <= profiled_fraction <= 1:
            fix = "give a number from 0 to 1"
            raise ConfigError(f"profiled_fraction = {profiled_fraction!r} is no fraction; {fix}")
        if not 0 <= reference_models <= len(catalogue.names):
            raise ConfigError(
                f"reference_models = {reference_models!r} is not possible: catalogue "
                f"{catalogue.name!r} has {len(catalogue.names)} models; give a number up to that "
                "(0 = all)"
            )
        super().__init__(catalogue)
        self.profiled_fraction = profiled_fraction
        self.reference_models = reference_models
        self.seed = seed
        self._tables: dict[int, _References] = {}

    def with_storage(self, mbps: Mapping[str, float]) -> Estimator:
        """The same on servers with these MB/s per GPU, by type."""
        catalogue = self.catalogue.with_storage(mbps)
        if catalogue is self.catalogue:
            return self
        return Estimator(catalogue, self.profiled_fraction, self.reference_models, self.seed)

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The reference models, in the order of the catalogue."""
        names = self.catalogue.names
        if self.reference_models in {0, len(names)}:
            return names
        drawn = self._generator(0).choice(len(names), size=self.reference_models, replace=False)
        return tuple(names[k] for k in sorted(drawn.tolist()))

    def reference(self, profile: str, gpus: int, draw: int) -> str | None:
        """The reference that stands for the arriving job number `draw`.

        None if there is nothing to compare with.

        Every job is profiled anew, so two jobs of one model may get different references.
        """
        table = self._table(gpus)
        if not table.names:
            return None
        rng = self._generator(draw + 1)
        row, possible = table.row(self.catalogue, profile)
        measured = possible & (rng.random(len(row)) < self.profiled_fraction)
        return table.names[table.nearest(row, measured, rng)]

    def estimated_pair_rate(
        self,
        profile: str,
        reference: str | None,
        partner: str,
        partner_reference: str | None,
        gpus: int,
        type_: str,
    ) -> float:
        """What `pair_rate` is taken to be before the two have run together, from 0 to `rate`."""
        if reference is None or partner_reference is None or (reference, partner_reference) == (profile, partner):
            together = self.pair_rate(profile, partner, gpus, type_)
            return min(together, self.rate(profile, gpus, type_))
        part = self._table(gpus).value(reference, partner_reference, type_)
        return part * self.rate(profile, gpus, type_)

    def _table(self, gpus: int) -> _References:
        if gpus not in self._tables:
            self._tables[gpus] = _References(self.catalogue, self.references, gpus)
        return self._tables[gpus]

    def _generator(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self.seed % 2**64, stream))


class _References:
    """The measured matrix of the references for one number of GPUs.

    Rows [R], columns [T x R], values from 0 to 1.
    """

    def __init__(self, catalogue: Catalogue, models: tuple[str, ...], gpus: int) -> None:
        self._gpus = gpus
        self._types = catalogue.types

        def is_measured(model: str) -> bool:
            return all(catalogue.measured(model, gpus, t) is not None for t in self._types)

        self.names = tuple(model for model in models if is_measured(model))
        self._position = {name: k for k, name in enumerate(self.names)}
        self._column = {type_: k * len(self.names) for k, type_ in enumerate(self._types)}
        self._values: FloatArray = np.zeros((0, 0))
        if self.names:
            self._values = np.array([self.row(catalogue, name)[0] for name in self.names])

    def row(self, catalogue: Catalogue, profile: str) -> tuple[FloatArray, BoolArray]:
        """Speed beside each reference over speed alone, [T x R], and where that can be measured."""
        parts = []
        possible = []
        for type_ in self._types:
            alone = _alone(catalogue, profile, self._gpus, type_)
            shared = [catalogue.pair_rate(profile, r, self._gpus, type_) if alone else 0.0 for r in self.names]
            parts.append(np.clip(np.array(shared) / (alone or 1.0), 0.0, 1.0))
            possible.append(np.full(len(self.names), alone is not None))
        return np.concatenate(parts), np.concatenate(possible)

    def value(self, reference: str, partner: str, type_: str) -> float:
        """Speed of one reference beside another over its speed alone."""
        if type_ not in self._column:
            raise UnknownName("accelerator type:", type_, self._types)
        column = self._column[type_] + self._position[partner]
        return float(self._values[self._position[reference], column])

    def nearest(self, row: FloatArray, measured: BoolArray, rng: np.random.Generator) -> int:
        """The reference that is most similar, judged by the measured part of the row.

        Any, if that says nothing.
        """
        if not measured.all():
            matrix = np.vstack([self._values, row])
            known = np.vstack([np.ones(self._values.shape, dtype=np.bool_), measured])
            row = np.clip(complete(matrix, known, rng)[-1], 0.0, 1.0)
            if not row.any() and self._values.any():
                return int(rng.integers(len(self.names)))
        lengths = np.linalg.norm(self._values, axis=1) * np.linalg.norm(row)
        zeros = np.zeros(len(self.names))
        cosine = np.divide(self._values @ row, lengths, out=zeros, where=lengths > 0)
        distance = np.linalg.norm(self._values - row, axis=1)
        return int(np.where(cosine >= cosine.max() - _SAME, distance, np.inf).argmin())


def _alone(catalogue: Catalogue, profile: str, gpus: int, type_: str) -> float | None:
    """The speed alone; None where it was not measured.

    Raises ProfileMissing for an unknown profile.
    """
    if not catalogue.known(profile):
        return catalogue.rate(profile, gpus, type_)
    return catalogue.measured(profile, gpus, type_)

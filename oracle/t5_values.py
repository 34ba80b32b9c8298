"""What t5_bucket and t5_bias return: the oracle's side of their laws.

Sources: `spec/t5_bucket_definition.py`, `spec/t5_bias_definition.py`. The usual recipe takes a
logarithm in single precision, which next to a threshold gives one of two neighbouring buckets,
which of them by the processor. So a bucket lies between a least and a greatest one. At almost every
distance they are the same, and there a result is exact; two results are compared with each other at
these `settled` places.

At T5's own sizes every result is exact. The distances that are met by a threshold there, 16, 32 and
64 of both directions, are 8 times a power of two, as 128 is, and in float32 the logarithms of 2, 4,
8 and 16 are 1, 2, 3 and 4 times one number: their quotients are exact in any order of the steps.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients, value_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import t5_bias_definition, t5_bucket_definition
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

NUM_BUCKETS, MAX_DISTANCE = 32, 128
"""The defaults of T5."""


Three = tuple[Definition, Definition, Definition]
"""Of the exact, of the least and of the greatest bucket."""


class Setting(NamedTuple):
    """The options of a call, defaults filled in."""

    both: bool
    num_buckets: int
    max_distance: int

    @property
    def side(self) -> int:
        """Buckets of one direction."""
        return self.num_buckets // 2 if self.both else self.num_buckets

    @property
    def last(self) -> int:
        """The greatest bucket that there is."""
        return 2 * self.side - 1 if self.both else self.side - 1

    @property
    def usual(self) -> bool:
        """Whether the sizes are T5's own."""
        return (self.num_buckets, self.max_distance) == (NUM_BUCKETS, MAX_DISTANCE)

    @property
    def legal(self) -> bool:
        """Whether the wide buckets have a logarithm: there is a single distance beside 0 to start
        from, and the longest lies beyond the single ones."""
        return 1 <= self.side // 2 < self.max_distance


def setting_of(inputs: Inputs) -> Setting:
    """The options of a call of either function. The bias has as many buckets as its table rows."""
    options, table = inputs.options, inputs.arrays.get("table")
    return Setting(
        bool(options.get("bidirectional", True)),
        int(options.get("num_buckets", NUM_BUCKETS)) if table is None else int(table.shape[0]),
        int(options.get("max_distance", MAX_DISTANCE)),
    )


@cache
def _of_offsets(both: bool) -> Three:
    """Exact, least and greatest bucket."""
    exact = t5_bucket_definition.t5_bucket(bidirectional=both)
    return (exact, *t5_bucket_definition.t5_bucket_by_logarithm(bidirectional=both))


@cache
def _of_table(both: bool) -> Three:
    """The bias of the exact, of the least and of the greatest bucket."""
    exact = t5_bias_definition.t5_bias(bidirectional=both)
    return (exact, *t5_bias_definition.t5_bias_by_logarithm(bidirectional=both))


def _ends(definitions: Three, setting: Setting) -> tuple[Definition, Definition]:
    """The definitions between which a result lies."""
    exact, least, most = definitions
    return (exact, exact) if setting.usual else (least, most)


def exact_buckets(offsets: Array, setting: Setting) -> Array:
    """The bucket of every offset in exact numbers, as float64."""
    return _buckets(_of_offsets(setting.both)[0], offsets, setting)


def bucket_range(offsets: Array, setting: Setting) -> tuple[Array, Array]:
    """The least and the greatest bucket of every offset, as float64."""
    least, most = _ends(_of_offsets(setting.both), setting)
    return _buckets(least, offsets, setting), _buckets(most, offsets, setting)


def settled(offsets: Array, setting: Setting) -> Array:
    """Where an offset has one bucket, however its logarithm is rounded."""
    least, most = bucket_range(offsets, setting)
    same: Array = least == most
    return same


def _buckets(definition: Definition, offsets: Array, setting: Setting) -> Array:
    if not offsets.size:
        return np.zeros(offsets.shape)
    parameters = {
        "count": offsets.size,
        "num_buckets": setting.num_buckets,
        "max_distance": setting.max_distance,
    }
    flat = value_of(definition, parameters, {"relative_position": offsets.ravel()})
    return flat.reshape(offsets.shape)


def bucket(implementation: Implementation, inputs: Inputs) -> Expected:
    """The buckets of a call, half a bucket up or down where either of two is right."""
    least, most = bucket_range(inputs.arrays["relative_position"], setting_of(inputs))
    return Expected((least + most) / 2.0, (most - least) / 2.0)


def displacements(inputs: Inputs) -> Array:
    """The position of each key minus that of each query, t s."""
    t, s = inputs.numbers["t"], inputs.numbers["s"]
    found: Array = t5_bias_definition.displacement(np.arange(t)[:, None], np.arange(s), t, s)
    return found


def settled_pairs(inputs: Inputs) -> Array:
    """The pairs of query and key with one bucket, however a logarithm is rounded, t s."""
    return settled(displacements(inputs), setting_of(inputs))


def rows_read(inputs: Inputs) -> Array:
    """Which rows of the table any pair of the call may read."""
    found = np.zeros(inputs.arrays["table"].shape[0], bool)
    for buckets in bucket_range(displacements(inputs), setting_of(inputs)):
        found[buckets.astype(np.int64)] = True
    return found


def _parameters(inputs: Inputs) -> dict[str, int]:
    rows, heads = inputs.arrays["table"].shape
    return {
        "heads": heads,
        "t": inputs.numbers["t"],
        "s": inputs.numbers["s"],
        "num_buckets": rows,
        "max_distance": setting_of(inputs).max_distance,
    }


def _of_ends(inputs: Inputs) -> tuple[Definition, Definition]:
    setting = setting_of(inputs)
    return _ends(_of_table(setting.both), setting)


def bias(implementation: Implementation, inputs: Inputs) -> Expected:
    """The bias of a call, h t s: the table's entries to the bit, and any number from one entry to
    the other where a pair has one of two buckets."""
    arrays, parameters = {"table": inputs.arrays["table"]}, _parameters(inputs)
    if not inputs.numbers["t"]:
        empty = np.zeros((parameters["heads"], 0, parameters["s"]))
        return Expected(empty, empty)
    one, other = (
        expected(definition, parameters, arrays, implementation.contract).value
        for definition in _of_ends(inputs)
    )
    middle = np.where(one == other, one, one / 2.0 + other / 2.0)
    reach = np.maximum(np.abs(one - middle), np.abs(other - middle))
    # the subtraction is rounded, so the next number up
    return Expected(middle, np.where(reach > 0.0, np.nextafter(reach, np.inf), 0.0))


def bias_gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradient of the table: sums over the pairs of each bucket. A pair with one of two buckets
    may be in either sum: half of it is, give or take the other half."""
    least, most = _of_ends(inputs)
    either = ~settled_pairs(inputs)

    def summed(definition: Definition, values: Array) -> Expected:
        arrays = {"table": inputs.arrays["table"], "upstream": values}
        (found,) = expected_gradients(
            definition, ("table",), _parameters(inputs), arrays, implementation.contract
        )
        return found

    whole = summed(least, upstream)
    if not either.any():
        return {"table": whole}
    known = summed(least, np.where(either, 0.0, upstream)).value
    loose = np.where(either, upstream, 0.0)
    middle = sum(summed(d, loose).value for d in (least, most)) / 2.0
    reach = sum(summed(d, np.abs(loose)).value for d in (least, most)) / 2.0
    # a sum has terms of both at most: with n + m of them in place of n, or m, an allowance that
    # grows as the square is at most twice the two together
    rounding = 2.0 * (whole.allowance + summed(most, upstream).allowance)
    return {"table": Expected(known + middle, np.asarray(reach + rounding))}

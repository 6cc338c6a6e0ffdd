"""A file that says it is a checkpoint of a run cannot make the reader do anything."""

import pytest

from rota.core.errors import ConfigError
from rota.engine import checkpoint


def crafted(module, name, *arguments):
    """A pickle that calls module.name with texts."""
    words = b"".join(b"V" + word.encode() + b"\n" for word in arguments)
    body = b"c" + module.encode() + b"\n" + name.encode() + b"\n(" + words + b"tR."
    return checkpoint._head(body) + body


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("numpy", "memmap", ("FILE", "uint8", "w+")),
        ("numpy", "load", ("FILE",)),
        ("numpy", "fromfile", ("FILE",)),
        ("numpy.lib.npyio", "DataSource", ("FILE",)),
        ("numpy.testing._private.utils", "runstring", ("open('FILE','w')", "")),
        ("numpy.distutils.exec_command", "exec_command", ("touch FILE",)),
        ("os", "system", ("touch FILE",)),
        ("builtins", "eval", ("open('FILE','w')",)),
        ("builtins", "getattr", ("a", "b")),
        ("rota.core.files", "write_text", ("FILE", "x")),
        ("rota.core.files", "Path", ("FILE",)),
        ("rota.core.own_code", "importlib.import_module", ("os",)),
    ],
)
def test_nothing_but_values_is_read(tmp_path, module, name, arguments):
    target = tmp_path / "touched"
    path = tmp_path / "c"
    path.write_bytes(crafted(module, name, *(word.replace("FILE", str(target)) for word in arguments)))

    with pytest.raises(ConfigError):
        checkpoint.load(path, {})

    assert not target.exists()


def test_arrays_numbers_and_our_own_values_are_read(tmp_path):
    import numpy as np

    from rota.core.rules import Rules

    parts = {"a": np.arange(3), "b": np.float64(1.5), "c": np.array([], dtype=np.bool_), "d": Rules(), "e": {1, 2}}
    checkpoint.save(tmp_path / "c", checkpoint.Checkpoint(config={"x": 1}, parts=parts))

    read = checkpoint.load(tmp_path / "c", {"x": 1}).parts

    assert (read["a"].tolist(), float(read["b"]), read["d"], read["e"]) == ([0, 1, 2], 1.5, Rules(), {1, 2})
    assert read["c"].dtype == np.bool_

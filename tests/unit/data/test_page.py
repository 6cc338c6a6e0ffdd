"""The script on the page about the data path runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "data-path.md"


def test_the_script_without_pytorch_runs(tmp_path):
    script = re.search(r"```python\n(# train.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    (tmp_path / "data").mkdir()
    for number in range(10):
        (tmp_path / "data" / f"{number}.txt").write_text(f"item {number}")

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) >= 66  # 20 steps of 4 items; the last batch of an epoch of 10 has 2

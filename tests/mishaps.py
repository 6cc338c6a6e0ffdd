"""What happens to machines beside crashes: wall clocks that are set, disks that fill up."""

import contextlib
import os
import subprocess


class Clocks:
    """Wall clocks of some processes, as files with seconds that they are ahead."""

    def __init__(self, folder):
        self.paths = {who: folder / f"{who}.clock" for who in ("scheduler", "agents")}
        for path in self.paths.values():
            path.write_text("0")

    def prefix(self, who):
        return ("env", f"ROTA_TEST_WALL_CLOCK={self.paths[who]}")

    def set(self, who, seconds):
        beside = self.paths[who].with_suffix(".new")
        beside.write_text(str(seconds))
        beside.rename(self.paths[who])


class SmallDisk:
    """A disk of its own that can be filled, where one can be mounted."""

    def __init__(self, path, megabytes):
        self.path = path
        self.path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
        done = subprocess.run(command, check=False, capture_output=True) if os.geteuid() == 0 else None
        self.mounted = done is not None and done.returncode == 0

    def fill(self):
        with contextlib.suppress(OSError), (self.path / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 16))

    def free(self):
        (self.path / "filler").unlink(missing_ok=True)

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path], check=False)

"""A disk that fills up is told with the next report, not with the next look at it."""

from rota.deploy.agent import disk
from rota.deploy.agent.disk import DiskWatch


def test_a_report_says_that_the_disk_is_full_at_that_moment(tmp_path, monkeypatch):
    free = [100.0]
    monkeypatch.setattr(disk, "_free_mb", lambda _: free[0])
    watch = DiskWatch(tmp_path)
    assert not watch.look()

    free[0] = 0.0

    assert not watch.look()  # it has looked a moment ago
    assert "is full (0 MB left)" in watch.trouble_now()
    free[0] = 100.0
    assert watch.trouble_now() == ""

from rota.deploy.security.client import nearest_file


def a_file(folder, mode=0o600):
    (folder / ".rota").mkdir(parents=True)
    path = folder / ".rota" / "client.toml"
    path.write_text('scheduler = "localhost:1"\n')
    path.chmod(mode)
    return path


def test_the_nearest_folder_above_counts(tmp_path):
    far, near = a_file(tmp_path), a_file(tmp_path / "a")
    below = tmp_path / "a" / "b" / "c"
    below.mkdir(parents=True)

    assert nearest_file(below) == near
    assert nearest_file(tmp_path) == far


def test_a_file_that_others_may_write_is_passed_over(tmp_path):
    far = a_file(tmp_path)
    a_file(tmp_path / "a", mode=0o666)

    assert nearest_file(tmp_path / "a") == far

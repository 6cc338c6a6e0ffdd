import pytest

from rota.core.errors import ConfigError
from rota.deploy.security.client import find_settings
from rota.deploy.security.diagnosis import diagnose
from rota.deploy.security.subjects import Role
from secure import a_client, a_site

TOKEN = f"rota_{'0' * 12}_{'a' * 64}"


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home/.config/rota"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def certs(tmp_path):
    return a_site(tmp_path / "certs")


def environment(home, **more):
    return {"HOME": str(home.parents[1]), **more}


def private(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(home, certs, tmp_path):
    private(tmp_path / "token", TOKEN)
    (home / "client.toml").write_text(f'scheduler = "file:1"\ncerts = "{certs}"\ntoken_file = "{tmp_path / "token"}"\n')

    by_file = find_settings(environ=environment(home))
    by_variable = find_settings(environ=environment(home, ROTA_SCHEDULER="variable:1", ROTA_TOKEN=TOKEN))
    by_flag = find_settings("flag:1", environ=environment(home, ROTA_SCHEDULER="variable:1"))

    assert [s.address for s in (by_file, by_variable, by_flag)] == ["file:1", "variable:1", "flag:1"]
    assert by_file.token == TOKEN
    assert by_file.describe() == (
        f"scheduler file:1 from {home / 'client.toml'}; certificate {certs / 'client.pem'} from "
        f"{home / 'client.toml'}; token from {tmp_path / 'token'} ({home / 'client.toml'})"
    )
    assert "token from ROTA_TOKEN" in by_variable.describe()
    assert "from the command line" in by_flag.describe()
    assert TOKEN not in repr(by_file) + by_file.describe()


def test_certificates_are_found_in_the_default_place(home):
    a_site(home / "certs")

    found = find_settings("h:1", environ=environment(home))

    assert found.bundle.subject.name == "admin"
    assert found.sources["certs"] == "the default place"
    assert found.token is None


def test_an_agent_finds_its_certificate_and_needs_no_token(home, certs):
    found = find_settings("h:1", certs, role=Role.AGENT, name="node1", environ=environment(home, ROTA_TOKEN=TOKEN))

    assert (found.bundle.subject.name, found.token) == ("node1", None)


def test_what_is_missing_is_said_with_every_place_that_was_looked_at(home):
    with pytest.raises(ConfigError, match=r"ROTA_SCHEDULER.*client\.toml"):
        find_settings(environ=environment(home))
    with pytest.raises(ConfigError, match=r"ROTA_CERTS.*client\.toml.*--insecure"):
        find_settings("h:1", environ=environment(home))


def test_without_certificates_only_by_flag_and_only_here(home):
    (home / "client.toml").write_text("insecure = true\n")
    with pytest.raises(ConfigError, match="insecure cannot be used"):
        find_settings("127.0.0.1:1", environ=environment(home))
    (home / "client.toml").unlink()

    assert find_settings("127.0.0.1:1", insecure=True, environ=environment(home)).insecure
    with pytest.raises(ConfigError, match="address from ROTA_SCHEDULER"):
        find_settings(insecure=True, environ=environment(home, ROTA_SCHEDULER="10.0.0.1:1"))


def test_a_token_file_that_others_read_or_that_holds_something_else_is_refused(home, certs, tmp_path):
    wrong = private(tmp_path / "token", "hunter2")
    with pytest.raises(ConfigError, match="does not hold a token"):
        find_settings("h:1", certs, wrong, environ=environment(home))
    wrong.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        find_settings("h:1", certs, wrong, environ=environment(home))


@pytest.mark.parametrize("text", ["scheduler = 1", "scheduler", "schedulr = 'x'"])
def test_a_user_file_with_mistakes_is_named(home, text):
    (home / "client.toml").write_text(text)

    with pytest.raises(ConfigError, match=r"client\.toml"):
        find_settings("h:1", environ=environment(home))


def test_an_unknown_host_is_said(certs):
    assert "is not known" in diagnose("no-such-host.invalid:1", a_client(certs))

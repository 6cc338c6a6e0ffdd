"""Who may run on a machine, and as whom."""

import os
import pwd

import pytest

from rota.core.errors import ConfigError
from rota.deploy.agent.config_file import read_agent_file
from rota.deploy.agent.descriptions import resume_from
from rota.deploy.worker.container_rules import ContainerRules
from rota.deploy.worker.tenancy import OneTenant, SeparateUsers, check_reachable, make_folder
from rota.deploy.worker.users import UidRange, named
from rota.rpc import rota_pb2 as pb

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")


def test_an_agent_without_root_takes_the_first_tenant_and_remembers_it(tmp_path):
    assert OneTenant(tmp_path / "tenant").user_of("vision") is None

    again = OneTenant(tmp_path / "tenant")

    assert again.user_of("vision") is None
    with pytest.raises(ConfigError, match="runs jobs of tenant 'vision' only"):
        again.user_of("speech")
    assert again.describe() == "not root, so tenants cannot be isolated: jobs of tenant 'vision' only"


def test_an_agent_without_root_takes_only_the_tenant_it_was_told(tmp_path):
    tenancy = OneTenant(tmp_path / "tenant", "speech")

    assert tenancy.user_of("speech") is None
    with pytest.raises(ConfigError, match="runs jobs of tenant 'speech' only"):
        tenancy.user_of("vision")


@as_root
def test_numbers_of_tenants_are_the_same_everywhere_and_two_tenants_never_share_one(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    first = SeparateUsers(tmp_path / "a", uids=UidRange()).user_of("vision")
    second = SeparateUsers(tmp_path / "b", uids=UidRange()).user_of("vision")
    crowded = SeparateUsers(tmp_path / "c", uids=UidRange(70_000, 1))

    assert first.uid == second.uid
    assert crowded.user_of("vision").uid == 70_000
    with pytest.raises(ConfigError, match="'speech' and 'vision' have the same number 70000"):
        crowded.user_of("speech")


@as_root
def test_a_damaged_list_of_numbers_is_named(tmp_path):
    (tmp_path / "users.json").write_text("{")

    with pytest.raises(ConfigError, match=r"users\.json cannot be read"):
        SeparateUsers(tmp_path, uids=UidRange()).user_of("vision")


@as_root
def test_tenants_without_a_user_are_refused_where_the_operator_says_so(tmp_path):
    tenancy = SeparateUsers(tmp_path, {"vision": "nobody"}, None)

    assert tenancy.user_of("vision").name == "nobody"
    with pytest.raises(ConfigError, match="tenant 'speech' has no user on this server"):
        tenancy.user_of("speech")


def test_the_administrator_and_unknown_names_are_no_users_of_jobs():
    with pytest.raises(ConfigError, match="that is the administrator"):
        named("root", "vision")
    with pytest.raises(ConfigError, match="this machine has no such user"):
        named("no-such-user", "vision")


@as_root
def test_two_tenants_with_one_user_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="have the same user 'nobody'"):
        SeparateUsers(tmp_path, {"vision": "nobody", "speech": "nobody"})


def test_a_folder_below_a_closed_one_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(ConfigError, match="which other users may not enter"):
        check_reachable(closed / "folder", "the folder")


def test_a_link_is_not_taken_for_a_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(OSError, match="Not a directory"):
        make_folder(tmp_path / "link", 0o700)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("uids = [0, 10]", "uids is"),
        ("uids = [5000, 4000]", "uids is"),
        ("uids = [1e9, 2e9]", "uids is"),
        ("refuse_others = 1", "give true or false"),
        ("tenants = 3", "tenants is no table"),
        ("[tenants]\nvision = 3", "give the name of a user"),
        ('[tenants]\n"a/b" = "x"', "a tenant"),
        ("[tenant]\n", "did you mean 'tenants'"),
        ('[containers]\nmounts = ["/"]', "the whole machine"),
        ('[containers]\nmounts = ["data"]', "absolute path"),
        ('[containers]\nmounts = ["/data:exec"]', "absolute path"),
        ("[containers]\nimages = [1]", "give a list of texts"),
        ("[containers", "not a TOML file"),
    ],
)
def test_a_mistake_in_the_agents_file_is_named(tmp_path, text, said):
    path = tmp_path / "agent.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=said) as error:
        read_agent_file(path)

    assert str(path) in str(error.value) or "mount" in str(error.value) or "tenant" in str(error.value)


def test_images_are_compared_after_links_were_followed(tmp_path):
    (tmp_path / "allowed").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "allowed" / "away").symlink_to(tmp_path / "secret")
    rules = ContainerRules(images=(f"{tmp_path}/allowed", f"{tmp_path}/allowed/*", "registry.example.org/ml/**"))

    assert rules.image(f"{tmp_path}/allowed/../allowed") == str(tmp_path / "allowed")
    assert rules.image("registry.example.org/ml/a/b:1") == "registry.example.org/ml/a/b:1"
    for image in (f"{tmp_path}/allowed/away", f"{tmp_path}/secret", "registry.example.org/other:1", "host"):
        with pytest.raises(ConfigError, match="is not allowed on this server"):
            rules.image(image)


@pytest.mark.parametrize("image", ["-v/:/host", "--privileged", "", "a b", "a\n--privileged", "../x", "x" * 600])
def test_no_image_can_be_an_option_of_an_engine(image):
    with pytest.raises(ConfigError, match="cannot be the name of an image"):
        ContainerRules(everything=True).image(image)


@pytest.mark.parametrize(
    "saved", ["8/1/step", "7/../8/1/step", "7/1/../../8/1/step", "/etc/passwd/x", "7/x/step", "7/1"]
)
def test_a_job_goes_on_only_from_what_it_saved_itself(tmp_path, saved):
    with pytest.raises(ConfigError, match="cannot be a checkpoint of job 7"):
        resume_from(tmp_path, pb.TaskOrder(job=7, resume=saved))


def test_the_number_of_somebody_whom_the_machine_knows_is_given_to_no_tenant(tmp_path):
    """Directories of large sites give numbers out of any range."""
    nobody = pwd.getpwnam("nobody").pw_uid
    tenancy = SeparateUsers(tmp_path, uids=UidRange(nobody, 1))

    with pytest.raises(ConfigError, match=f"the number {nobody} of tenant 'vision' is that of user 'nobody'"):
        tenancy.user_of("vision")
    assert not (tmp_path / "home").exists()


def test_two_names_of_one_user_are_one_user(tmp_path, monkeypatch):
    entry = pwd.getpwnam("nobody")
    monkeypatch.setattr(pwd, "getpwnam", lambda _: entry)

    with pytest.raises(ConfigError, match="have the same user"):
        SeparateUsers(tmp_path, {"vision": "nobody", "speech": "another"})


def test_a_job_that_removes_the_memory_of_the_one_tenant_lets_no_other_in(tmp_path):
    tenancy = OneTenant(tmp_path / "tenant")
    tenancy.user_of("vision")
    (tmp_path / "tenant").unlink()

    with pytest.raises(ConfigError, match="runs jobs of tenant 'vision' only"):
        tenancy.user_of("speech")

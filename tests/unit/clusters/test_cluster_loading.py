import pytest

from rota import clusters
from rota.core.cluster import Resources
from rota.core.errors import ConfigError, UnknownName

FILE = """
name = "lab"
[[server]]
type = "a100"
count = 2
gpus = 8
cpus = 64
memory_gb = 512
storage_mbps = 500
network_gbps = 100
rack = "r1"
[[server]]
type = "v100"
gpus = 4
[[server]]
type = "a100"
gpus = 4
[[accelerator]]
name = "a100"
memory_gb = 80
hourly_price = 2.5
"""


def a_file(folder, text):
    path = folder / "lab.toml"
    path.write_text(text)
    return path


def test_a_short_text_says_gpus_by_type():
    cluster = clusters.load("v100=36/4,p100=36,k80=36")

    assert cluster.types == ("k80", "p100", "v100")
    assert cluster.capacity.tolist() == [36, 36, 36]
    assert cluster.server_gpus.tolist() == [4] * 27
    assert cluster.prices.tolist() == [0.135, 0.43, 0.74]
    assert [a.memory_gb for a in cluster.accelerators] == [12, 16, 16]


def test_a_remainder_goes_to_a_smaller_last_server():
    assert clusters.load("v100=10/4").server_gpus.tolist() == [4, 4, 2]
    assert clusters.load("v100=3/8").server_gpus.tolist() == [3]


def test_a_type_without_gpus_is_dropped():
    assert clusters.load(" v100=4 , p100=0/2 ").types == ("v100",)


def test_types_are_free_text():
    cluster = clusters.load("NVIDIA H100 80GB=8/8")

    assert cluster.types == ("NVIDIA H100 80GB",)
    assert cluster.unpriced == ("NVIDIA H100 80GB",)


def test_gavel_108_is_built_in():
    cluster = clusters.load("gavel-108")

    assert "gavel-108" in clusters.names()
    assert cluster.name == "gavel-108"
    assert dict(zip(cluster.types, cluster.capacity.tolist(), strict=True)) == {"k80": 36, "p100": 36, "v100": 36}


def test_a_short_text_may_say_what_each_server_has_beside_its_gpus():
    cluster = clusters.load("v100=16/8:cpus=24:memory=500:storage=500:network=40, k80=4 : network=2.5 : cpus=8")

    k80, v100, _ = cluster.ordered
    assert v100.capacity == Resources(8, 24.0, 500.0, 500.0, 40.0)
    assert k80.capacity == Resources(4, 8.0, 0.0, 0.0, 2.5)
    assert cluster.fair_cpus.tolist() == [2.0, 3.0]


def test_a_type_may_hold_what_separates_elsewhere():
    cluster = clusters.load("a:b/c=3:cpus=6")

    assert cluster.types == ("a:b/c",)
    assert cluster.server_cpus.tolist() == [6.0]


@pytest.mark.parametrize(
    ("name", "servers", "cpus"),
    [
        ("synergy-128", 16, 24),
        ("synergy-128-cpu4", 16, 32),
        ("synergy-128-cpu5", 16, 40),
        ("synergy-128-cpu6", 16, 48),
        ("synergy-32", 4, 24),
        ("philly-512", 64, 24),
    ],
)
def test_the_clusters_of_synergy_are_built_in(name, servers, cpus):
    cluster = clusters.load(name)

    assert cluster.name == name
    assert cluster.types == ("v100",)
    assert [s.capacity for s in cluster.servers] == [Resources(8, float(cpus), 500.0, 500.0, 40.0)] * servers
    assert cluster.fair_cpus.tolist() == [cpus / 8]
    assert cluster.fair_memory_gb.tolist() == cluster.fair_storage_mbps.tolist() == [62.5]


@pytest.mark.parametrize("name", clusters.names())
def test_every_built_in_cluster_loads(name):
    assert clusters.load(name).gpus > 0


def test_a_toml_file_describes_servers_and_accelerators(tmp_path):
    cluster = clusters.load(a_file(tmp_path, FILE))

    assert cluster.name == "lab"
    assert [s.id for s in cluster.ordered] == ["a100-0", "a100-1", "a100-2", "v100-0"]
    assert cluster.ordered[0].rack == "r1"
    assert cluster.ordered[0].capacity.cpus == 64
    assert cluster.ordered[2].rack == "rack0"
    assert cluster.capacity.tolist() == [20, 4]
    assert cluster.prices.tolist() == [2.5, 0.74]


def test_a_toml_file_may_have_several_shapes_of_one_type_in_several_racks(tmp_path):
    shapes = [(2, 8, 24, 500, "a"), (1, 8, 32, 250, "b"), (1, 4, 24, 500, "b")]
    text = "".join(
        f'[[server]]\ntype="v100"\ncount={n}\ngpus={g}\ncpus={c}\nmemory_gb={m}\nrack="{r}"\n'
        for n, g, c, m, r in shapes
    )

    cluster = clusters.load(a_file(tmp_path, text))

    assert [s.id for s in cluster.ordered] == ["v100-0", "v100-1", "v100-2", "v100-3"]
    assert [s.rack for s in cluster.ordered] == ["a", "a", "b", "b"]
    assert cluster.capacity.tolist() == [28]
    assert cluster.server_cpus.tolist() == [24, 24, 32, 24]
    assert cluster.fair_cpus.tolist() == [3.0]
    assert cluster.fair_memory_gb.tolist() == [31.25]
    assert cluster.fair_storage_mbps.tolist() == [0.0]


def test_a_file_without_a_name_is_called_after_itself(tmp_path):
    path = a_file(tmp_path, '[[server]]\ntype="v100"\ngpus=1')

    assert clusters.load(str(path)).name == "lab"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("v100=-3", "'-3' in 'v100=-3' is not a number of GPUs"),
        ("v100=1.5", "'1.5' in 'v100=1.5'"),
        ("v100=many", "'many'"),
        ("v100=", "'' in 'v100='"),
        ("v100=4/0", "'0' in 'v100=4/0' is not a number of GPUs per server; give a whole number >= 1"),
        ("v100=4/", "'' in 'v100=4/'"),
        ("v100=99999999999", "'99999999999'"),
        ("v100=4,p100", "'p100' is not type=count"),
        ("=4", "'=4' is not type=count"),
        ("v100=4,v100=8", "v100 is given twice"),
        ("v100=0", "has no GPU"),
        ("v100=4:cpu=8", "unknown amount in cluster 'v100=4:cpu=8': 'cpu'; did you mean 'cpus'"),
        ("v100=4:memory_gb=8", "did you mean 'memory'"),
        ("v100=4:gpus=8", "unknown amount"),
        ("v100=4:8", "'8' is not name=amount; names are cpus, memory, storage, network"),
        ("v100=4:", "'' is not name=amount"),
        ("v100=4:cpus=", "'' in 'cpus=' is not an amount per server; give a number >= 0"),
        ("v100=4:cpus=-1", "'-1' in 'cpus=-1'"),
        ("v100=4:cpus=nan", "'nan' in 'cpus=nan'"),
        ("v100=4:cpus=inf", "'inf' in 'cpus=inf'"),
        ("v100=4:cpus=many", "'many' in 'cpus=many'"),
        ("v100=4:cpus=8:cpus=9", "cpus is given twice"),
        ("v100=4/8:cpus=8/2", "'8/2' in 'cpus=8/2'"),
        ("36:36:36", "v100=36,p100=36,k80=36"),
        ("nowhere.toml", r"cannot read cluster file 'nowhere\.toml'"),
    ],
)
def test_a_text_that_is_no_cluster_is_refused_with_the_offending_part(spec, message):
    with pytest.raises(ConfigError, match=message):
        clusters.load(spec)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'gavel-108'"):
        clusters.load("gavel-107")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[server]]\ntype="v100"\ngpu=4', "'gpu'; did you mean 'gpus'"),
        ('[[servers]]\ntype="v100"\ngpus=4', "'servers'; did you mean 'server'"),
        ('[[server]]\ntype="v100"', r"\[\[server\]\] number 1: gpus is missing"),
        ('[[server]]\ntype="v100"\ngpus=0', "gpus = 0; give a whole number >= 1"),
        ('[[server]]\ntype="v100"\ngpus=4\ncount=-1', "count = -1"),
        ('[[server]]\ntype="v100"\ngpus=4\ncount=1.5', "count = 1.5"),
        ('[[server]]\ntype="v100"\ngpus=true', "gpus = True"),
        ('[[server]]\ntype="v100"\ngpus=100000000000000000000', "gpus = 10+; give a whole number >= 1 and <= 10000000"),
        ('[[server]]\ntype="v100"\ngpus=4\ncount=1000000000', "count = 1000000000; give a whole number"),
        (
            '[[server]]\ntype="v"\ngpus=4\n[[server]]\ntype="v"\ngpus=4\ncount=10000000',
            "number 2: count = 10+ makes more than",
        ),
        (f'[[server]]\ntype="v100"\ngpus=4\ncpus=1{"0" * 400}', "a whole number has 1,329 bits"),
        (f'[[server]]\ntype="v100"\ngpus=4\ncpus=1{"0" * 5000}', "a whole number has thousands of digits"),
        (f'[[server]]\ntype="v100"\ngpus=4\ncpus=0x{"f" * 5000}', "a whole number has 20,000 bits"),
        ('[[server]]\ntype="v100"\ngpus=4\ncount=250001', "makes more than 250,000 servers; give fewer"),
        ('[[server]]\ntype="v100"\ngpus=4\ncpus=-1', "cpus = -1; give a number >= 0"),
        ('[[server]]\ntype="v100"\ngpus=4\nmemory_gb=nan', "memory_gb = nan"),
        ("[[server]]\ngpus=4", "type is missing"),
        ("[[server]]\ntype=3\ngpus=4", "type = 3 is not a text"),
        ('name="x"', r"has no \[\[server\]\]"),
        ('name=3\n[[server]]\ntype="a"\ngpus=1', "name = 3 is not a text"),
        ("server=3", r"written as \[\[server\]\]"),
        ("[[server", "not valid TOML"),
        ("server = " + "[" * 50_000, "not valid TOML"),
        ('[[accelerator]]\nname="x"\nprice=1\n[[server]]\ntype="x"\ngpus=1', "'price'; did you mean 'hourly_price'"),
    ],
)
def test_a_file_that_is_no_cluster_is_refused_with_the_offending_part(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        clusters.load(a_file(tmp_path, text))

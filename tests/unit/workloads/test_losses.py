import pytest

from rota.core.jobs import Launch, table
from rota.workloads import EVERYTHING, Holds, formats
from rota.workloads.losses import lost


def jobs_with_everything():
    return table(
        profile_names=["ResNet-18 (batch size 32)"],
        gpus=[1],
        total_steps=[10.0],
        submitted=[0.0],
        duration=[60.0],
        tenant_names=["vision"],
        launch=[Launch(command="python train.py")],
    )


@pytest.mark.parametrize("name", formats.names())
def test_every_format_says_what_it_has_a_place_for(name):
    assert isinstance(formats.create(name).holds, Holds)


def test_a_format_that_holds_everything_loses_nothing():
    assert formats.create("csv").holds == EVERYTHING
    assert lost(jobs_with_everything(), "csv") == []


def test_what_a_format_has_no_place_for_is_named():
    assert lost(jobs_with_everything(), "synergy") == ["durations", "tenants", "commands"]
    assert lost(jobs_with_everything(), "gavel") == ["durations", "tenants"]
    assert lost(jobs_with_everything(), "swf") == ["commands"]

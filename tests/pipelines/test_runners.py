"""Which engine runs a build, with which options and on how many workers."""

import os
from typing import Any

import pytest
from apache_beam.options.pipeline_options import DebugOptions, DirectOptions, StandardOptions
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from pipelines import runners
from pipelines.config import Runner
from pipelines.runners import OptionsRefused, beam_options, forked_workers, make_runner
from shardwright.errors import ShardwrightError


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 6})


@pytest.fixture(autouse=True)
def no_runner_of_beams_choice(monkeypatch):
    """Beam's own choice of a local runner may download another engine; nothing may ask for it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Beam's own runner was asked for")

    monkeypatch.setattr(runners, "create_runner", refuse)
    monkeypatch.setattr(DirectRunner, "run_pipeline", refuse)


def options_of(*words: str, **runner: Any) -> Any:
    return beam_options(Runner(**runner), list(words))


def workers_of(*words: str, **runner: Any) -> int:
    return options_of(*words, **runner).view_as(DirectOptions).direct_num_workers


LOCAL_WORDS = [[], ["--runner=DirectRunner"], ["--runner=FnApiRunner"], ["--runner", "DirectRunner"]]


@pytest.mark.parametrize("words", LOCAL_WORDS)
@pytest.mark.parametrize("workers", [1, 3])
def test_the_local_names_mean_the_pinned_fn_api_runner(words, workers):
    assert type(make_runner(options_of(*words, workers=workers))) is FnApiRunner


def test_several_workers_are_processes_and_one_is_in_memory():
    several = make_runner(options_of(workers=2))
    one = make_runner(options_of(workers=1))
    assert isinstance(several._default_environment, SubprocessSDKEnvironment)
    assert not isinstance(one._default_environment, SubprocessSDKEnvironment)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_are_given_the_options(workers):
    runner = make_runner(options_of("--job_name=tell-the-workers", workers=workers))
    assert "tell-the-workers" in str(runner._provision_info.provision_info.pipeline_options)


@pytest.mark.parametrize(
    ("words", "runner", "count"),
    [
        ([], {}, 3),
        ([], {"workers": "all"}, 3),
        ([], {"workers": 5}, 5),
        (["--direct_num_workers=7"], {"workers": 5}, 7),
        (["--direct_num_workers", "7"], {"workers": 5}, 7),
        ([], {"workers": 5, "options": {"direct_num_workers": 4}}, 4),
        (["--direct_num_workers=2"], {"options": {"direct_num_workers": 4}}, 2),
    ],
)
def test_how_many_workers(words, runner, count):
    assert workers_of(*words, **runner) == count
    assert forked_workers(options_of(*words, **runner)) == count


def test_zero_is_beams_word_for_all_cores():
    assert forked_workers(options_of("--direct_num_workers=0", workers=1)) == 3


def test_one_worker_needs_no_process():
    assert forked_workers(options_of(workers=1)) == 0


def test_another_runner_needs_no_process_of_ours():
    assert forked_workers(options_of("--runner=DataflowRunner", workers=8)) == 0


def test_other_runners_are_beams_to_make(monkeypatch):
    monkeypatch.setattr(runners, "create_runner", lambda name: ("made", name))
    assert make_runner(options_of("--runner=PortableRunner")) == ("made", "PortableRunner")
    assert make_runner(options_of(options={"runner": "FlinkRunner"})) == ("made", "FlinkRunner")


def test_options_of_the_config_are_scalars_lists_and_switches():
    options = options_of(
        options={
            "job_name": "text",
            "direct_runner_bundle_repeat": 1,
            "experiments": ("one", "two"),
            "streaming": True,
            "save_main_session": False,
        }
    ).get_all_options()
    assert (options["job_name"], options["direct_runner_bundle_repeat"]) == ("text", 1)
    assert options["experiments"][:2] == ["one", "two"]
    assert options["streaming"] is True
    assert not options["save_main_session"]


def test_the_command_line_wins_over_the_config():
    options = options_of("--job_name=here", options={"job_name": "there"})
    assert options.get_all_options()["job_name"] == "here"


def test_words_after_the_options_are_kept_in_order():
    options = options_of("--experiments=two", options={"experiments": "one"})
    assert options.view_as(DebugOptions).experiments[:2] == ["one", "two"]


@pytest.mark.parametrize(
    ("words", "config", "message"),
    [
        (["--direct_num_worker=2"], {}, "--direct_num_worker=2: no Beam option; did you mean --direct_num_workers?"),
        (["--runer=X"], {}, "--runer=X: no Beam option; did you mean --runner?"),
        (["--zzzzzzzzzzzz"], {}, "--zzzzzzzzzzzz: no Beam option"),
        ([], {"job_nam": "x"}, "--job_nam: no Beam option; did you mean --job_name?"),
        ([], {"job_nam": True}, "--job_nam: no Beam option; did you mean --job_name?"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(words, config, message):
    with pytest.raises(OptionsRefused) as caught:
        options_of(*words, options=config)
    assert str(caught.value) == message


def test_every_unknown_option_is_named_at_once():
    with pytest.raises(OptionsRefused) as caught:
        options_of("--runer=X", "--job_name=fine", "--zzzzzzzzzzzz")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["--runer=X", "--zzzzzzzzzzzz"]


def test_an_abbreviated_option_is_refused():
    with pytest.raises(OptionsRefused, match="--direct_num=2: no Beam option"):
        options_of("--direct_num=2")


def test_an_unknown_switch_is_refused_even_when_it_is_off():
    with pytest.raises(OptionsRefused):
        options_of(options={"job_nam": False})


def test_a_word_that_is_no_option_is_refused():
    with pytest.raises(OptionsRefused):
        options_of("runner=FlinkRunner")


def test_a_value_of_the_wrong_kind_is_refused():
    with pytest.raises(OptionsRefused):
        options_of("--direct_num_workers=many")


def test_the_refusal_is_ours_and_has_no_traceback():
    assert issubclass(OptionsRefused, ShardwrightError)


def test_the_options_name_no_runner_unless_asked():
    assert options_of().view_as(StandardOptions).runner in (None, *runners.LOCAL)

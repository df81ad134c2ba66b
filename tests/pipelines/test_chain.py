"""The graph is one straight chain that carries references only: what every engine can run, with one worker killed or
a bundle twice.
"""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipelines.c4_html import BuildC4Html
from pipelines.pinned import pin
from pipelines.plan import Plan, make_plan
from shardwright.layout import COMMIT
from tests.support import make_config, row, write_input
from transforms.stages import exchange

STAGES = ["Spill", "SelectHeldOut", "Resolve", "CutShards", "Gather", "Seal"]
MARKER = "pumpernickel"


@pytest.fixture
def plan(tmp_path) -> Plan:
    rows = [row(f"http://{MARKER}/{i}", f"{MARKER} text {i} " * 50, ["html", "title"]) for i in range(60)]
    files = [write_input(tmp_path / "in" / f"{n}.jsonl.gz", rows[n::4]) for n in range(4)]
    plan = make_plan(make_config(tmp_path / "out", files, held_out={"fraction": 0.2}, runner={"workers": 1}))
    pin(plan, [])
    return plan


class Leaves(PipelineVisitor):
    def __init__(self) -> None:
        self.seen: list[AppliedPTransform] = []

    def visit_transform(self, node: AppliedPTransform) -> None:
        self.seen.append(node)


def leaves(plan: Plan) -> list[AppliedPTransform]:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    _ = pipeline | "Build" >> BuildC4Html(plan=plan)
    visitor = Leaves()
    pipeline.visit(visitor)
    return visitor.seen


def test_each_stage_is_a_group_by_key_and_one_flat_map(plan):
    labels = [node.full_label.removeprefix("Build/") for node in leaves(plan)]
    grouped = [label for label in labels if label.endswith("Exchange")]
    applied = [label for label in labels if label.endswith("Apply")]
    assert [label.split("/")[0] for label in applied] == STAGES
    assert [label.split("/")[0] for label in grouped] == STAGES
    assert labels.index("Seal/Apply") == len(labels) - 1


def test_no_side_inputs_tagged_outputs_state_or_forks(plan):
    consumers: dict[object, int] = {}
    for node in leaves(plan):
        assert not node.side_inputs, node.full_label
        assert list(node.outputs) in ([None], []), node.full_label
        assert len(node.inputs) <= 1, node.full_label
        for source in node.inputs:
            consumers[source] = consumers.get(source, 0) + 1
        if isinstance(node.transform, beam.ParDo):
            assert not beam.transforms.userstate.is_stateful_dofn(node.transform.fn), node.full_label
            assert type(node.transform.fn).finish_bundle is beam.DoFn.finish_bundle, node.full_label
    assert set(consumers.values()) == {1}


def run_recording(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Run the build and record every element that crosses an edge: who took or gave it, its key, its text."""
    crossed: list[tuple[str, int, str]] = []
    call = exchange._Call.__call__

    def recording(self, group):
        key, values = group
        values = list(values)
        crossed.extend((f"into {self.function.__name__}", key, value) for value in values)
        for out, value in call(self, (key, values)):
            crossed.append((f"out of {self.function.__name__}", out, value))
            yield out, value

    monkeypatch.setattr(exchange._Call, "__call__", recording)
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        _ = pipeline | "Build" >> BuildC4Html(plan=plan)
    return crossed


def test_no_document_crosses_a_beam_edge(plan, monkeypatch, tmp_path):
    crossed = run_recording(plan, monkeypatch)
    assert (tmp_path / "out" / COMMIT).exists()
    assert {edge.split()[-1] for edge, _, _ in crossed} == {
        "spill",
        "select_held_out",
        "resolve",
        "cut_shards",
        "gather",
        "seal",
    }
    for edge, key, text in crossed:
        assert type(key) is int, edge
        assert type(text) is str, edge
        assert MARKER not in text, edge
        assert len(text) < 4096, (edge, len(text))


def test_elements_do_not_grow_with_documents(tmp_path, monkeypatch):
    sizes = []
    for count in (20, 200):
        rows = [row(f"http://x/{i}", f"t{i}") for i in range(count)]
        files = [write_input(tmp_path / str(count) / "a.jsonl.gz", rows)]
        plan = make_plan(make_config(tmp_path / f"out{count}", files, runner={"workers": 1}))
        pin(plan, [])
        with monkeypatch.context() as patch:
            sizes.append(max(len(text) for _, _, text in run_recording(plan, patch)))
    assert sizes[1] - sizes[0] < 64

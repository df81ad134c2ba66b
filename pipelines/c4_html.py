"""The main job: C4-HTML rows in, globally shuffled, held-out-proved, sealed shards out. It reads as the data flows."""

from dataclasses import dataclass

import apache_beam as beam

from pipelines.cards import C4HtmlCards
from pipelines.plan import Plan
from transforms.records.c4_html import C4HtmlReader
from transforms.records.rules import RequireTypes
from transforms.records.samples import TarTextEncoder
from transforms.stages.cut_shards import CutShards
from transforms.stages.gather import Gather
from transforms.stages.resolve import Resolve
from transforms.stages.seal import Seal
from transforms.stages.select_held_out import SelectHeldOut
from transforms.stages.spill import Spill


@dataclass(kw_only=True, eq=False)
class BuildC4Html(beam.PTransform):
    """The whole build of one plan; its single output element is the build id."""

    plan: Plan

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection[tuple[int, str]]:
        """See the class."""
        spec, inputs, config = self.plan.spec, self.plan.inputs, self.plan.config
        read = C4HtmlReader(id_fields=config.id, row_bytes=config.limits.row_bytes)
        keep = RequireTypes(any_of=config.filter.require.any_of, all_of=config.filter.require.all_of)
        encode, cards = TarTextEncoder(), C4HtmlCards()
        return (
            start
            | "WorkUnits" >> beam.Create(self.plan.elements(), reshuffle=False).with_output_types(tuple[int, str])
            | "Spill" >> Spill(spec=spec, read=read, keep=keep, encode=encode)
            | "SelectHeldOut" >> SelectHeldOut(spec=spec, inputs=inputs)
            | "Resolve" >> Resolve(spec=spec)
            | "CutShards" >> CutShards(spec=spec)
            | "Gather" >> Gather(spec=spec, encode=encode, cards=cards)
            | "Seal" >> Seal(spec=spec, inputs=inputs, cards=cards)
        )

"""Stage 1, Spill: read, filter and encode a work unit inside one element; one sorted run file comes out."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
from xxhash import xxh3_128, xxh3_128_hexdigest

from shardwright import canonical, layout, order
from transforms.records.compression import InputDamaged, Readable
from transforms.records.document import Document, Rejected
from transforms.records.samples import Encoder, encoder_versions
from transforms.stages import progress
from transforms.stages.exchange import Element, exchange
from transforms.stages.inputs import HashedStream, RejectedLog
from transforms.stages.runs import FROM_HELD_OUT_INPUT, NO_PAYLOAD, UNDER_FRACTION, KeyRow, RunFacts, RunWriter
from transforms.stages.spec import BuildSpec, Input
from transforms.stages.work import BuildRefused, publish, publishing, work_path

Reader = Callable[[Readable, str], Iterator[Document | Rejected]]
Rule = Callable[[Document], str | None]


@dataclass(frozen=True)
class SpillSettings:
    """What `spill` needs: the build, and the three things that differ between sources."""

    spec: BuildSpec
    read: Reader
    keep: Rule
    encode: Encoder


@dataclass(kw_only=True, eq=False)
class Spill(beam.PTransform):
    """Work units to run references. `read` makes documents of an input, `keep` returns a reason to drop one, `encode`
    makes its bytes.

    Takes `(unit number, JSON list of inputs)`; gives `(0, run reference)`. No document leaves the element it was read
    in.
    """

    spec: BuildSpec
    read: Reader
    keep: Rule
    encode: Encoder

    def expand(self, units: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        settings = SpillSettings(self.spec, self.read, self.keep, self.encode)
        return exchange(units, spill, settings, self.spec.root)


@dataclass
class InputFacts:
    """What became of the rows of one input; `damage` says where and why it could not be read to its end."""

    number: int
    rows: int = 0
    digest: str | None = None
    damage: dict[str, Any] | None = None
    rejected: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Plain values; `dataclasses.asdict` would count a Counter's items instead of copying them."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}


def spill(settings: SpillSettings, unit: int, values: list[Any]) -> Iterator[tuple[int, Any]]:
    """The run reference of one work unit, made now or found finished and intact."""
    check_versions(settings.spec, settings.encode)
    inputs = [Input(**item) for value in values for item in value]
    name = run_name(settings.spec, inputs)
    reference = _finished(settings.spec.root, name)
    if reference is None:
        reference = _make_run(settings, inputs, name)
        if not any(_may_heal(item) for item in reference["inputs"]):
            publish(_reference_path(settings.spec.root, name), canonical.dumps(reference).encode())
    else:
        progress.advance(
            bytes_read=sum(item.bytes for item in inputs), documents=sum(item["rows"] for item in reference["inputs"])
        )
    yield 0, reference


def check_versions(spec: BuildSpec, encode: Encoder) -> None:
    """Raise BuildRefused on a worker whose encoders are not those of the plan: their bytes may differ."""
    here, planned = encoder_versions(encode), canonical.loads(spec.versions.encode())
    if here != planned:
        where = f"{socket.gethostname()}:{os.getpid()}"
        raise BuildRefused(f"worker {where} has encoders {here}, the plan has {planned}: give all machines one image")


def run_name(spec: BuildSpec, inputs: list[Input]) -> str:
    """A name that changes with everything that can change the run's bytes."""
    facts = [layout.FORMAT, spec.fingerprint, spec.segment_bytes, [asdict(item) for item in inputs]]
    return xxh3_128_hexdigest(canonical.dumps(facts).encode())


def run_path(root: str, name: str) -> Path:
    """Where the run `name` lies."""
    return work_path(root, "runs", f"{name}.run")


def rejected_path(root: str, name: str) -> Path:
    """Where the rejected rows of the run `name` lie, if it has any."""
    return work_path(root, layout.REJECTED, f"{name}.jsonl.zst")


def _reference_path(root: str, name: str) -> Path:
    return work_path(root, "runs", f"{name}.json")


def _finished(root: str, name: str) -> Any:
    """The reference of a run that an earlier attempt finished, if every byte of it is still there."""
    try:
        reference = canonical.loads(_reference_path(root, name).read_bytes())
        whole = _digest(run_path(root, name)) == reference["digest"]
        if reference["rejected"]:
            whole = whole and _digest(rejected_path(root, name)) == reference["rejected"]
    except (FileNotFoundError, ValueError):
        return None
    return reference if whole else None


def _may_heal(item: Any) -> bool:
    """Whether an input might be read by another attempt: one that could not be opened, unlike damaged bytes."""
    return item["damage"] is not None and item["damage"]["reason"] == "unreadable"


def _digest(path: Path) -> str:
    digest = xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _make_run(settings: SpillSettings, inputs: list[Input], name: str) -> dict[str, Any]:
    """Read the unit; when an input proves damaged, read it again without that one, so that none of its rows is in."""
    damaged: dict[int, InputDamaged] = {}
    while True:
        try:
            return _attempt(settings, inputs, damaged, name)
        except _Damage as damage:
            damaged[damage.number] = damage.cause


class _Damage(Exception):
    def __init__(self, number: int, cause: InputDamaged) -> None:
        super().__init__(str(cause))
        self.number, self.cause = number, cause


def _attempt(
    settings: SpillSettings, inputs: list[Input], damaged: dict[int, InputDamaged], name: str
) -> dict[str, Any]:
    root, facts = settings.spec.root, []
    with RejectedLog(rejected_path(root, name)) as log, publishing(run_path(root, name)) as file:
        run = RunWriter(file, settings.spec.segment_bytes)
        for item in inputs:
            if item.number in damaged:
                facts.append(_record_damage(item, damaged[item.number], log))
            else:
                facts.append(_spill_input(settings, item, run, log))
        done = run.finish()
    return _reference(name, done, facts, _digest(rejected_path(root, name)) if log.used else None)


def _reference(name: str, done: RunFacts, facts: list[InputFacts], rejected: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "bytes": done.bytes,
        "digest": done.digest,
        "rejected": rejected,
        "inputs": [item.as_json() for item in facts],
        "worker": f"{socket.gethostname()}:{os.getpid()}",
    }


def _record_damage(item: Input, cause: InputDamaged, log: "RejectedLog") -> InputFacts:
    log.add(uri=item.uri, line=None, offset=cause.offset, reason=cause.reason, detail=str(cause), payload="")
    return InputFacts(item.number, damage={"offset": cause.offset, "reason": cause.reason})


def _spill_input(settings: SpillSettings, item: Input, run: RunWriter, log: "RejectedLog") -> InputFacts:
    facts = InputFacts(item.number)
    try:
        with HashedStream(item.uri) as stream:
            for record in settings.read(stream, item.uri):
                facts.rows += 1
                progress.advance(bytes_read=stream.take(), documents=1)
                if isinstance(record, Rejected):
                    _reject(record, item, facts, log)
                else:
                    _place(settings, record, item, facts, run)
    except InputDamaged as cause:
        _refuse_changed(item, _size(item.uri))
        raise _Damage(item.number, cause) from None
    _refuse_changed(item, stream.bytes)
    facts.digest = stream.digest()
    return facts


def _refuse_changed(item: Input, size: int | None) -> None:
    """An input that is not as the plan saw it is no damage that a limit could allow: nobody knows what it was."""
    if size is not None and size != item.bytes:
        raise BuildRefused(
            f"{item.uri}: {size} bytes, the plan saw {item.bytes}: it changed while the build ran; start again with "
            "inputs that stay as they are"
        )


def _size(uri: str) -> int | None:
    try:
        return Path(uri).stat().st_size
    except OSError:
        return None  # gone or out of reach, which is damage


def _reject(record: Rejected, item: Input, facts: InputFacts, log: "RejectedLog") -> None:
    facts.rejected[record.reason] += 1
    payload = record.payload.decode(errors="backslashreplace")
    log.add(
        uri=item.uri,
        line=record.number,
        offset=record.offset,
        reason=record.reason,
        detail=record.detail,
        payload=payload,
    )


def _place(settings: SpillSettings, document: Document, item: Input, facts: InputFacts, run: RunWriter) -> None:
    """Give a readable row its key and its bytes. Of a held-out input, a dropped one bars its twins."""
    spec, flags, sample = settings.spec, FROM_HELD_OUT_INPUT if item.held_out else 0, b""
    id16 = order.id_digest(spec.id_fields, document.values)
    key = order.order_key(spec.seed, id16)
    reason = settings.keep(document)
    if reason is not None:
        facts.dropped[reason] += 1
        flags |= NO_PAYLOAD
        if not item.held_out:
            return
    else:
        sample = settings.encode(key, document)
        if order.salted_hash(spec.held_out.salt, id16) < order.fraction_bound(spec.held_out.fraction):
            flags |= UNDER_FRACTION
    content, text = order.content_digest(document.row), order.text_digest(document.text)
    row = KeyRow(
        key,
        content,
        item.number,
        document.number,
        text,
        order.sample_digest(sample),
        len(sample),
        document.types,
        flags,
    )
    run.add(row, sample, id16)

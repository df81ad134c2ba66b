"""The engine process: runs one pinned build on Beam. Started by the supervisor, by way of `pipelines.process`.

A process of its own, because a Beam run cannot be stopped or watched from inside: it blocks, it has no retries, and it
waits for ever for a worker that died. This process ends itself when a worker dies and when the supervisor is gone.
"""

import json
import logging
import os
import signal
import sys
import threading

import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.c4_html import BuildC4Html
from pipelines.crew import RUN_THREAD, fork_workers
from pipelines.pinned import read_pinned
from pipelines.plan import Plan
from pipelines.runners import beam_options, forked_workers, make_runner
from shardwright.errors import ShardwrightError
from transforms.stages.progress import FOLDER
from transforms.stages.work import FAILURE, publish, work_path

WORKER_DIED = 70
"""Exit status after a worker process died: sysexits' EX_SOFTWARE."""

JOBS = {"c4_html": BuildC4Html}


def main(root: str) -> int:
    """Run the build pinned in `root`; 0 when it is sealed. A problem's words go to `_work/failure.txt`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)
    threading.excepthook = _on_thread_death(root)
    try:
        plan, arguments = read_pinned(root)
        options = beam_options(plan.config.runner, arguments)
        fork_workers(forked_workers(options))
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
        run(plan, options)
    except ShardwrightError as error:
        publish(work_path(root, FAILURE), str(error).encode())
        return 1
    return 0


def run(plan: Plan, options: PipelineOptions) -> None:
    """Run `plan` on the engine that `options` name, to the end. Raises what the engine raises."""
    pipeline = beam.Pipeline(runner=make_runner(options), options=options)
    pipeline | "Build" >> JOBS[plan.config.job](plan=plan)
    pipeline.run().wait_until_finish()


def _on_thread_death(root: str):  # type: ignore[no-untyped-def]
    """Beam keeps one thread, `run_worker`, for each worker process; it raises when the process dies, and then Beam
    hangs.
    """

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is not None and arguments.thread.name == RUN_THREAD:
            publish(work_path(root, FAILURE), _obituary(root, str(arguments.exc_value)).encode())
            os._exit(WORKER_DIED)
        sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)

    return hook


def _obituary(root: str, cause: str) -> str:
    hands = [json.loads(path.read_text()) for path in sorted(work_path(root, FOLDER).glob("*.json"))]
    dead = [
        f"{item['in_hand'][0]} {item['in_hand'][1]}" for item in hands if item["in_hand"] and not _alive(item["pid"])
    ]
    held = f" while it had in hand: {', '.join(dead)}" if dead else ""
    return (
        f"a worker process died{held} ({cause}). Killed from outside, or by the system for want of memory: try a "
        "smaller runner.workers. "
        "Nothing was published; finished work is kept, and the same command goes on from there"
    )


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end_with_supervisor() -> None:
    """Standard input is a pipe from the supervisor that carries nothing; its end means that nobody watches any more."""
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin.read: its lock would be held at exit
    os.killpg(os.getpgrp(), signal.SIGKILL)

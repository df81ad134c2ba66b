"""The local runner's worker processes, forked from the engine after its imports and before its first thread.

Beam starts each worker as a new interpreter that imports everything again, 2.5 s of processor time a process. A forked
one starts at once and shares the engine's memory. (Forking later would copy gRPC's threads in mid-step.)
"""

import gc
import json
import os
import threading
import traceback
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler, WorkerHandler
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import json_format, text_format

RUN_THREAD = "run_worker"
"""The name that Beam gives the thread which waits for one worker process; the engine watches for its death."""

_waiting: list[tuple[int, int]] = []
"""(pid, write end of its pipe) of the forked processes that no job has taken yet."""


def fork_workers(count: int) -> None:
    """Fork `count` processes that wait for their job; one that never gets any ends with this process."""
    if threading.active_count() != 1:
        raise RuntimeError("workers must be forked before the first thread starts")
    gc.freeze()  # the collector need never walk Beam's modules again, here or in any child
    for _ in range(count):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            _wait_and_work(reader, [writer, *(end for _, end in _waiting)])
        os.close(reader)
        _waiting.append((pid, writer))


def _wait_and_work(reader: int, others: list[int]) -> None:
    """The life of a forked process: its environment comes by the pipe, as JSON; nothing, if the engine has ended."""
    status = 1
    try:
        for end in others:  # held open here, they would keep the siblings waiting for ever
            os.close(end)
        with os.fdopen(reader, "rb") as pipe:
            environment = pipe.read()
        if environment:
            os.environ.update(json.loads(environment))
            sdk_worker_main.main([])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _run(environment: dict[str, str]) -> None:
    """Give one waiting process its job and wait for its end; raises RuntimeError when that was not a clean one."""
    pid, writer = _waiting.pop()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(json.dumps(environment).encode())
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"worker process {pid} ended with status {os.waitstatus_to_exitcode(status)}")


class ForkedWorkerHandler(GrpcWorkerHandler):
    """Takes the place of Beam's SubprocessSdkWorkerHandler: the same job, given to a process of ours."""

    def __init__(self, _: bytes, *arguments: Any) -> None:
        super().__init__(*arguments)

    def start_worker(self) -> None:
        """Called by FnApiRunner once for each worker."""
        environment = {
            "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.control_api_service_descriptor()),
            "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.logging_api_service_descriptor()),
            "PIPELINE_OPTIONS": json_format.MessageToJson(self.provision_info.provision_info.pipeline_options),
            "WORKER_ID": self.worker_id,
        }
        self._thread = threading.Thread(name=RUN_THREAD, target=_run, args=(environment,))
        self._thread.start()

    def stop_worker(self) -> None:
        """Wait until it has ended; the runner has told it to."""
        self._thread.join()


WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)(ForkedWorkerHandler)

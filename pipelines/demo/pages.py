"""Render pages: the HTML that `pydoc` writes for the installed standard library.

One page for a module, one for each public class and function that it documents. The pages of one Python installation
are the same at every run: nothing in them comes from the environment, from an address or from the order of a set.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pydoc
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

SITE = "https://docs.python.example/3/library"
MAX_HTML = 48_000  # characters; a few giants (ast, builtins, asyncio) would be a third of it and of the time

# Importing these has no side effect; they exist in 3.11 to 3.14. Not here: modules that do something when imported
# (antigravity, this, idlelib, turtle, tkinter, readline) and modules that speak of one machine (sys, site, sysconfig).
_NAMES = """
    abc argparse array ast asyncio asyncio.base_events asyncio.base_subprocess asyncio.coroutines asyncio.events
    asyncio.exceptions asyncio.format_helpers asyncio.futures asyncio.locks asyncio.mixins asyncio.proactor_events
    asyncio.protocols asyncio.queues asyncio.runners asyncio.selector_events asyncio.sslproto asyncio.staggered
    asyncio.streams asyncio.subprocess asyncio.taskgroups asyncio.tasks asyncio.threads asyncio.timeouts
    asyncio.transports asyncio.trsock asyncio.unix_events atexit base64 bdb binascii bisect builtins bz2 cProfile
    calendar cmath cmd code codecs codeop collections collections.abc colorsys compileall concurrent.futures
    concurrent.futures.process concurrent.futures.thread configparser contextlib contextvars copy copyreg csv ctypes
    ctypes.util ctypes.wintypes dataclasses datetime dbm dbm.dumb decimal difflib dis doctest email email.base64mime
    email.charset email.contentmanager email.encoders email.errors email.feedparser email.generator email.header
    email.headerregistry email.iterators email.message email.mime.application email.mime.audio email.mime.base
    email.mime.image email.mime.message email.mime.multipart email.mime.nonmultipart email.mime.text email.parser
    email.policy email.quoprimime email.utils encodings encodings.idna encodings.punycode enum errno faulthandler
    filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib gzip
    hashlib heapq hmac html html.entities html.parser http http.client http.cookiejar http.cookies http.server imaplib
    importlib importlib.abc importlib.machinery importlib.metadata importlib.readers importlib.resources
    importlib.resources.abc importlib.resources.readers importlib.resources.simple importlib.util inspect io ipaddress
    itertools json json.decoder json.encoder json.scanner keyword linecache locale logging logging.config
    logging.handlers lzma mailbox marshal math mimetypes mmap modulefinder multiprocessing multiprocessing.connection
    multiprocessing.context multiprocessing.dummy multiprocessing.forkserver multiprocessing.heap
    multiprocessing.managers multiprocessing.pool multiprocessing.process multiprocessing.queues
    multiprocessing.reduction multiprocessing.shared_memory multiprocessing.sharedctypes multiprocessing.spawn
    multiprocessing.synchronize multiprocessing.util netrc ntpath numbers opcode operator optparse os pathlib pickle
    pickletools pkgutil platform plistlib poplib posixpath pprint profile pstats py_compile pyclbr pyexpat queue quopri
    random re reprlib runpy sched secrets select selectors shelve shlex shutil signal smtplib socket socketserver
    sqlite3 sqlite3.dump ssl stat statistics string stringprep struct subprocess symtable tabnanny tarfile
    tempfile textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata
    unittest unittest.async_case unittest.case unittest.loader unittest.main unittest.mock unittest.result
    unittest.runner unittest.signals unittest.suite unittest.util urllib.error urllib.parse urllib.request
    urllib.response urllib.robotparser uuid venv warnings wave weakref webbrowser wsgiref.handlers wsgiref.headers
    wsgiref.simple_server wsgiref.types wsgiref.util wsgiref.validate xml.dom xml.dom.NodeFilter xml.dom.domreg
    xml.dom.expatbuilder xml.dom.minicompat xml.dom.minidom xml.dom.pulldom xml.dom.xmlbuilder
    xml.etree.ElementInclude xml.etree.ElementPath xml.etree.ElementTree xml.parsers.expat xml.sax
    xml.sax.expatreader xml.sax.handler xml.sax.saxutils xml.sax.xmlreader xmlrpc.client xmlrpc.server zipapp zipfile
    zipimport zlib zoneinfo
"""
MODULES = tuple(_NAMES.split())

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_UNSTEADY = frozenset(["altzone", "daylight", "timezone", "tzname", "tempdir", "inited"])  # time zone, TMPDIR, history
_ON_EVERY_MACHINE = frozenset(["/", "/usr", "/usr/local"])
# Addresses, and the handlers that happen to be alive: logging.shutdown has the list of them as its default.
_MOMENTARY = re.compile(r"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9a-fA-F]+|&lt;weakref[^\]]*(?=\])")


@dataclass(frozen=True)
class Page:
    """A rendered page. `summary` is the first sentence of a module's docstring, None for a class or function."""

    url: str
    html: str
    is_module: bool
    summary: str | None = None


def load_modules() -> list[ModuleType]:
    """Import MODULES, all of them before the first page: pydoc links to what is loaded. One that fails is left out."""
    loaded = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            with suppress(Exception):  # an optional library was not there when this Python was built
                loaded.append(importlib.import_module(name))
    return loaded


def render_pages(modules: list[ModuleType]) -> Iterator[Page]:
    """Yield the pages of `modules` in order, each object once; no giants, and no pages that name this machine."""
    here = machine_paths()
    seen: set[tuple[object, str]] = set()
    for module in modules:
        for page in _pages_of(module, seen):
            if len(page.html) <= MAX_HTML and not any(path in page.html for path in here):
                yield page


def documented_names(modules: list[ModuleType]) -> frozenset[str]:
    """The names of the modules and of their public classes: what counts as an entity when it stands in a text."""
    names = {module.__name__ for module in modules if "." not in module.__name__}
    for module in modules:
        names.update(name for name, value in public_members(module) if inspect.isclass(value))
    return frozenset(name for name in names if len(name) > 2)


def public_members(module: ModuleType) -> list[tuple[str, Any]]:
    """The public classes and functions that `module` documents, by name; `__all__` decides where there is one."""
    listed = getattr(module, "__all__", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        members = inspect.getmembers(module, lambda value: inspect.isclass(value) or inspect.isroutine(value))
    if listed is not None:
        return [(name, value) for name, value in members if name in listed]
    own = module.__name__
    return [(name, value) for name, value in members if name[:1] != "_" and getattr(value, "__module__", own) == own]


def machine_paths() -> tuple[str, ...]:
    """Paths that are this machine's own. A page that holds one tells where it was made, and is different elsewhere."""
    paths = {sys.prefix, sys.base_prefix, sys.executable, sysconfig.get_path("stdlib"), str(Path.home())}
    return tuple(sorted(path for path in paths if path and path not in _ON_EVERY_MACHINE))


def _pages_of(module: ModuleType, seen: set[tuple[object, str]]) -> list[Page]:
    """The module's page, then those of its members that no earlier module showed (`seen` remembers them)."""
    formatter = _Formatter()
    base = f"{SITE}/{module.__name__}"
    with _docstrings_only(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pages = [Page(f"{base}.html", _render(formatter, module), True, _first_sentence(module))]
        for name, value in public_members(module):
            identity = (getattr(value, "__module__", None), getattr(value, "__qualname__", name))
            if identity not in seen:
                seen.add(identity)
                pages.append(Page(f"{base}/{name}.html", _render(formatter, value, name, module.__name__), False))
    return pages


def _render(formatter: _Formatter, value: object, *names: str) -> str:
    """One page as `pydoc -w` writes it, without what is momentary and without lone surrogates: no file holds them."""
    html = formatter.page(pydoc.describe(value), formatter.document(value, *names))
    return _MOMENTARY.sub("", html).encode("utf-8", "replace").decode("utf-8")


def _first_sentence(module: ModuleType) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join((inspect.getdoc(module) or "").split()), maxsplit=1)[0]


@contextmanager
def _docstrings_only() -> Iterator[None]:
    """Keep pydoc from looking for comments in the sources of what has no docstring: that is most of its time."""
    kept = inspect.getcomments
    inspect.getcomments = lambda object: None
    try:
        yield
    finally:
        inspect.getcomments = kept


class _Formatter(pydoc.HTMLDoc):
    """pydoc's own formatter, without what differs between two runs or two machines. One for each module."""

    def __init__(self) -> None:
        self._classes: dict[tuple[int, str | None], str] = {}

    def docclass(self, object: Any, name: str | None = None, *context: Any) -> str:
        """A class stands in its module's page and in its own: it is rendered once, with the module's links."""
        key = (id(object), name)
        if key not in self._classes:
            self._classes[key] = super().docclass(object, name, *context)
        return self._classes[key]

    def docother(self, object: Any, name: str | None = None, mod: Any | None = None, *ignored: Any) -> str:
        """A value: a constant in full, of everything else the type (os.environ is one of the others)."""
        if name in _UNSTEADY:
            shown = self.grey("...")
        else:
            shown = self.repr(object) if _is_constant(object) else self.grey(type(object).__name__)
        return f"<strong>{name}</strong> = {shown}" if name else shown

    def filelink(self, url: str, path: str) -> str:
        """The source file, by its name within the library instead of by its path on this machine."""
        return f"Lib/{os.path.relpath(path, os.path.dirname(os.__file__))}"

    def getdocloc(self, object: Any, basedir: str = "") -> str:
        """The address of the module's manual page, whatever PYTHONDOCS says."""
        return f"{SITE}/{object.__name__.lower()}"


def _is_constant(value: object) -> bool:
    if type(value) in (tuple, frozenset):
        return all(_is_constant(item) for item in value)  # type: ignore[attr-defined]
    return type(value) in _CONSTANTS

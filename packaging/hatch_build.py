"""Puts the packages of the tree above into the wheel `shardwright-build`, and leaves an editable install alone.

A `force-include` table in pyproject.toml would do the first, but hatchling obeys it in an editable install too: copies
would land in site-packages and hide the sources that somebody is working on.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("pipelines", "transforms")


class PackagesAbove(BuildHookInterface[Any]):
    """hatchling finds this class by looking for a hook in this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the packages to a wheel that is to be shipped (`version` is "standard" then, else "editable")."""
        if version == "standard":
            above = Path(self.root).parent
            build_data["force_include"] |= {str(above / name): name for name in PACKAGES}

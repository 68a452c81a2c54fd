"""The environment variables with which any GStreamer program finds Sluice's elements.

GStreamer's Python plugin loader runs the system's Python, which does not know the virtual environment that Sluice and
its dependencies are installed in. So a folder of plugin files is written that carry that environment's paths; it works
from any shell, with the environment active or not.
"""

import hashlib
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

import sluice
from sluice.elements import ELEMENTS
from sluice.errors import ConfigurationError

_TEMPLATE = '''"""Registers {name} with GStreamer's Python plugin loader. Written by `sluice env` for {prefix}."""

import site
import sys

# Before the system's own packages, as in the environment itself.
paths = {paths!r}
place = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
sys.path[place:place] = [path for path in paths if path not in sys.path]
for path in paths:
    site.addsitedir(path)

from {module} import {class_name}

__gstelementfactory__ = ("{name}", 0, {class_name})
'''


def plugin_path() -> Path:
    """Return the folder for GST_PLUGIN_PATH, after writing its files where they are missing or out of date.

    It lies in the virtual environment, or for a Python that is none, or cannot be written to, in the user's cache.

    Raises:
        ConfigurationError: neither place can be written to.
    """
    folders = [_cache_folder()]
    if sys.prefix != sys.base_prefix:
        folders.insert(0, Path(sys.prefix) / "share" / "sluice" / "gst-plugins")
    failures = []
    for folder in folders:
        try:
            _write_plugins(folder / "python")
            return folder
        except OSError as error:
            failures.append(str(error))
    raise ConfigurationError(
        f"the folder with Sluice's plugin files cannot be written ({'; '.join(failures)}); set XDG_CACHE_HOME to one "
        "that can"
    )


def environment(examples: Path | None = None) -> dict[str, str]:
    """Return the variables to export, with what is in them already kept behind Sluice's own part.

    Args:
        examples: a folder whose subfolder ``python`` holds more plugin files, such as the repository's ``examples``.
    """
    own = [str(plugin_path()), *([str(examples)] if examples else [])]
    before = [path for path in os.environ.get("GST_PLUGIN_PATH", "").split(os.pathsep) if path and path not in own]
    return {"GST_PLUGIN_PATH": os.pathsep.join(own + before)}


def site_paths() -> list[str]:
    """Return the folders that this Python finds Sluice and its dependencies in."""
    scheme = sysconfig.get_paths()
    home = str(Path(sluice.__file__).resolve().parents[1])
    return list(dict.fromkeys([scheme["purelib"], scheme["platlib"], home]))


def _cache_folder() -> Path:
    """Return a folder of the user's own for this Python and this installation."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256("\n".join([sys.prefix, *site_paths()]).encode()).hexdigest()[:12]
    return cache / "sluice" / f"gst-plugins-{key}"


def _write_plugins(folder: Path) -> None:
    """Write one file per element, only where its text differs, each at once; remove those of elements that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for name, target in ELEMENTS.items():
        module, _, class_name = target.partition(":")
        path = folder / f"sluice_{name.removeprefix('sluice')}.py"
        text = _TEMPLATE.format(name=name, prefix=sys.prefix, paths=site_paths(), module=module, class_name=class_name)
        wanted.add(path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
    for stale in set(folder.glob("sluice_*.py")) - wanted:
        stale.unlink(missing_ok=True)  # another process may do the same

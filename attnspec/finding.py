"""Finding the module or object that a target's words name, and importing it.

Whatever goes wrong inside the target's own code is told with the exception's type, its message
and the line in that code, never with a traceback of the suite.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from attnspec.usage import UsageError, listed, nearest, suggestion

_OURS = str(Path(__file__).parent)


def found(words: str) -> object:
    """The module or object of a file, a built-in name, `pkg.mod` or `pkg.mod:object`.
    Raises UsageError."""
    from attnspec.impls.targets import TARGETS

    if words in TARGETS:
        return _imported(TARGETS[words], words)
    source, _, attribute = words.rpartition(":")
    if not source:
        source, attribute = words, ""
    if _is_path(words):
        module: object = _file(Path(words))
    elif _is_path(source):
        module = _file(Path(source))
    else:
        module = _importable(source, words, list(TARGETS))
    if source == words:
        return module
    if not attribute:
        raise UsageError(f"{words!r} names no object after its colon")
    return _part(module, attribute, source)


def _is_path(words: str) -> bool:
    path = Path(words)
    folder = path.is_dir() and not words.isidentifier()
    return folder or words.endswith(".py") or path.is_file() or "/" in words or "\\" in words


def _file(path: Path) -> object:
    if path.is_dir():
        raise UsageError(f"{path} is a directory; expected a file or an importable name")
    if not path.exists():
        near = suggestion(path.name, [p.name for p in path.parent.glob("*.py")])
        raise UsageError(f"no file {str(path)!r};{near} (working directory: {Path.cwd()})")
    # as `python FILE` does, so that the file can import its neighbours
    _search_first(path.resolve().parent)
    name = f"attnspec_target_{path.stem}"
    loader = SourceFileLoader(name, str(path.resolve()))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _run(lambda: loader.exec_module(module), str(path))
    return module


def _importable(module: str, words: str, builtin: list[str]) -> object:
    _search_first(Path.cwd())
    top = module.partition(".")[0]
    if not all(part.isidentifier() for part in module.split(".")) or not _exists(top):
        prefix, _, rest = words.partition(":")
        fault = f" did you mean 'fault:{rest}'?" if rest and nearest(prefix, ["fault"]) else ""
        raise UsageError(
            f"unknown target {words!r};{fault or suggestion(words, builtin)} expected a file, an "
            f"importable name, fault:ID or one that `attnspec targets` lists: "
            f"{listed(builtin, words)}"
        )
    return _imported(module, words)


def _exists(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except ValueError:  # a module that is loaded without a spec, such as __main__
        return top in sys.modules


def _imported(module: str, words: str) -> object:
    return _run(lambda: importlib.import_module(module), words)


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _part(module: object, attribute: str, source: str) -> object:
    thing: Any = module
    for name in attribute.split("."):
        if not hasattr(thing, name):
            names = [n for n in dir(thing) if not n.startswith("_")]
            near = suggestion(name, names)
            raise UsageError(
                f"{source} has no {attribute!r};{near} it has: {', '.join(names[:20]) or 'nothing'}"
            )
        thing = getattr(thing, name)
    return thing


def _run(work: Callable[[], object], words: str) -> object:
    try:
        return work()
    except SyntaxError as error:
        place = f"{Path(error.filename or words).name}, line {error.lineno}"
        raise UsageError(f"{words} is not Python: {error.msg} ({place})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{words} is not Python: it is no text in UTF-8") from error
    except (Exception, SystemExit) as error:
        raise UsageError(_failed(error, words)) from error


def _failed(error: BaseException, words: str) -> str:
    if isinstance(error, ValueError) and "null bytes" in str(error):
        return f"{words} is not Python: it contains null bytes"
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [f for f in frames if not _machinery(f.filename)]
    text = f"importing {words} raised {type(error).__name__}: {' '.join(str(error).split())}"
    if not foreign:
        return text
    frame = foreign[0]
    return f"{text} ({Path(frame.filename).name}, line {frame.lineno}: {frame.line or '?'})"


def _machinery(filename: str) -> bool:
    ours = filename.startswith(_OURS) and not filename.startswith(str(Path(_OURS, "impls")))
    return ours or filename.startswith("<frozen") or Path(filename).parent.name == "importlib"

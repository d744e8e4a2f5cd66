"""Build the site strictly into _build/html: ``python tools/book.py [--all]``.

A warning of the build, a stored traceback without its tag, and a dead link between pages
are errors. Pages that did not change are not built again, unless the build before failed
or something changed that Sphinx does not watch; ``--all`` builds every page.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter(node=True)

import argparse
import hashlib
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import links
import notebook_gates
import yaml

ROOT = environment.ROOT
UNWATCHED = ("_toc.yml", "_config.yml", "pyproject.toml", "requirements.txt")
UNWATCHED_FOLDERS = ("book/_ext", "book/_templates")
TROUBLE = re.compile(r"(?:\x1b\[[\d;]*m)*.*\b(?:WARNING|ERROR|CRITICAL):.*")


def fingerprint(root: Path) -> str:
    """Of what shapes all pages and is not watched by Sphinx."""
    paths = [root / name for name in UNWATCHED]
    for folder in UNWATCHED_FOLDERS:
        paths += sorted((root / folder).rglob("*"))
    digest = hashlib.sha256(str(root).encode())
    for path in paths:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def pages(node: Any) -> list[str]:
    """Names of the pages in a table of contents, in reading order."""
    if isinstance(node, list):
        return [name for part in node for name in pages(part)]
    if not isinstance(node, dict):
        return []
    own = [str(node[key]) for key in ("root", "file") if key in node]
    inner = [
        pages(node[k])
        for k in ("parts", "subtrees", "chapters", "sections")
        if k in node
    ]
    return own + [name for names in inner for name in names]


def check_sources(root: Path) -> None:
    """Stop with a sentence when a file that the book is made of is missing or broken."""
    lost = environment.missing(root, ["_config.yml", "_toc.yml"])
    if lost:
        raise environment.Stop(f"{lost[0]} is missing: restore it with git checkout.")
    for name in ("_config.yml", "_toc.yml"):
        try:
            content = yaml.safe_load((root / name).read_text(encoding="utf-8"))
        except yaml.YAMLError as trouble:
            where = getattr(trouble, "problem_mark", None)
            line = f" in line {where.line + 1}" if where else ""
            raise environment.Stop(
                f"{name} is not YAML{line}: mend it there."
            ) from trouble
    for page in pages(content):
        found = [root / page, *(root / f"{page}{s}" for s in (".ipynb", ".md", ".rst"))]
        if not any(path.is_file() for path in found):
            raise environment.Stop(
                f"_toc.yml names {page}, which is missing: restore the file with git "
                "checkout, or take the line out of _toc.yml."
            )


def stored_tracebacks(root: Path) -> list[str]:
    """Errors in stored outputs that no tag announces."""
    return [
        f"{path.name}: {complaint}"
        for path in notebook_gates.every_notebook(root)
        for complaint in notebook_gates.no_traceback(notebook_gates.load(path, root))
    ]


def sphinx(root: Path, everything: bool) -> list[str]:
    """Run Jupyter Book and pass its output on; return what went wrong."""
    program = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", program, "build", str(root)]
    command += ["-W", "-n", "--keep-going", *(["--all"] if everything else [])]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    troubles: list[str] = []
    held: list[str] = []  # Jupyter Book closes every failure with its own traceback
    for line in process.stdout or ():
        line = line.rstrip()
        if TROUBLE.match(line):
            troubles.append(re.sub(r"\x1b\[[\d;]*m", "", line).replace(f"{root}/", ""))
        if held or line.startswith("Traceback (most recent call last)"):
            held.append(line)
        else:
            environment.say(line)
    if process.wait() and not troubles:
        environment.say("\n".join(held))
        troubles.append("Jupyter Book failed; its own message stands above")
    return troubles if process.returncode else []


def build(root: Path, everything: bool = False) -> list[str]:
    """Build the site of ``root``; return what went wrong, nothing if all is well."""
    check_sources(root)
    found = stored_tracebacks(root)
    if found:
        return found
    built = root / "_build" / "html"
    state = root / "_build" / "book-is-good"
    wanted = fingerprint(root)
    fresh = everything or environment.read(state) != wanted
    # a page with a warning is not read again, so the next build would not complain
    state.unlink(missing_ok=True)
    found = sphinx(root, fresh) or links.dead_links(built)
    if not found:
        state.write_text(wanted, encoding="utf-8")
    return found


def main() -> int:
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="build every page anew")
    found = build(ROOT, parser.parse_args().all)
    seconds = time.monotonic() - started
    environment.say()
    if found:
        environment.say(
            f"The book is not good ({seconds:.0f} s). Mend this, then again:"
        )
        for line in found:
            environment.say(f"  {line}")
        return 1
    page = ROOT / "_build" / "html" / "index.html"
    environment.say(
        f"The book is built ({seconds:.0f} s). Open it with a double click:"
    )
    environment.say(f"  {page}")
    return 0


if __name__ == "__main__":
    environment.finish(main)

"""The environment that every target runs in: ``.venv`` and ``node_modules``.

``python tools/environment.py`` makes or mends both. Any Python starts it; it looks for
one that fits by running the candidates, 3.11 first. Only the standard library is used
here, and nothing that an old Python could not parse, so that a wrong version gets a
sentence and not a syntax error.

``COURSE_ENVIRONMENT=off`` makes the tools use the Python that runs them, as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ((3, 11), (3, 12), (3, 13))
VERSIONS_TEXT = "3.11, 3.12 or 3.13"
NPM_FILES = ("package.json", "package-lock.json", ".npmrc")
WINDOWS = os.name == "nt"

NO_NETWORK = re.compile(
    "NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|"
    "Connection refused|Connection reset|name resolution|Name or service not known|"
    "nodename nor servname|getaddrinfo|Network is unreachable|Max retries exceeded|"
    r"ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|ECONNRESET|"
    r"\(from versions: none\)"  # what pip says when its index did not answer
)
DISK_FULL = re.compile("No space left on device|ENOSPC|not enough space on the disk")


class Stop(Exception):  # noqa: N818 - it is the end of a command, not an error in it
    """What ends a command: its text is one sentence that says what to do."""


def say(text: str = "") -> None:
    """Print at once, so that a line stands before what a child process prints."""
    print(text, flush=True)


def finish(main) -> None:
    """Run a script's ``main``; a known trouble ends in its sentence, not a traceback."""
    try:
        sys.exit(main())
    except Stop as trouble:
        sys.stdout.flush()
        print(trouble, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nInterrupted. The same command takes it up again.", file=sys.stderr)
        sys.exit(130)


# ------------------------------------------------------------------------ interpreter


def candidates():
    """Commands that may start a Python that fits, the best first."""
    commands = []
    for major, minor in VERSIONS:
        commands.append([f"python{major}.{minor}"])
        if WINDOWS:
            commands.append(["py", f"-{major}.{minor}"])
    commands += [["python3"], ["python"]]
    if sys.executable:
        commands.append([sys.executable])
    return commands


def ask(command):
    """Run one candidate; its (version, path, can make environments), None if it fails.

    Running is the only honest question: a version manager's stand-in is on the path and
    executable, and fails with 127 all the same.
    """
    probe = (
        "import sys, importlib.util as u\n"
        "print(sys.version_info[0], sys.version_info[1])\n"
        "print(getattr(sys, '_base_executable', None) or sys.executable)\n"
        "print(u.find_spec('venv') is not None and u.find_spec('ensurepip') is not None)"
    )
    try:
        done = subprocess.run(
            [*command, "-c", probe],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )
        version, path, able = done.stdout.decode().splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    major, minor = version.split()
    return (int(major), int(minor)), path, able == "True"


def choose_interpreter():
    """Path of a Python that fits and can make environments."""
    seen = []
    crippled = None
    for command in candidates():
        answer = ask(command)
        if answer is None:
            continue
        version, path, able = answer
        if version in VERSIONS and able:
            return path
        if version in VERSIONS:
            crippled = crippled or path
        seen.append("{}.{}".format(*version))
    if crippled:
        raise Stop(
            f"{crippled} cannot make environments, since its venv or ensurepip module "
            "is missing: install it (Debian and Ubuntu: apt-get install python3-venv) "
            "and run the same command again."
        )
    found = ", ".join(sorted(set(seen))) or "none"
    raise Stop(
        f"Python {VERSIONS_TEXT} is needed and none was found (found: {found}): "
        "install one of them, see that its command runs, and run the same command again."
    )


# ----------------------------------------------------------------------------- running


def python(root=ROOT):
    """Path of the environment's Python."""
    folder = root / ".venv" / ("Scripts" if WINDOWS else "bin")
    return folder / ("python.exe" if WINDOWS else "python")


def variables():
    """Environment variables of the children: the environment's programs come first."""
    env = dict(os.environ)
    env["PATH"] = str(python().parent) + os.pathsep + env.get("PATH", "")
    env["PIP_USER"] = "0"
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["PYTHONUTF8"] = "1"
    env["PYTHONUNBUFFERED"] = "1"
    env.pop("PYTHONHOME", None)
    return env


def explain(what, log, code):
    """The sentence for an installer that failed."""
    if DISK_FULL.search(log):
        return f"{what} failed since the disk is full: free some space and run again."
    if NO_NETWORK.search(log):
        return (
            f"{what} failed since no package index could be reached: check the network "
            "or proxy, and run the same command again (what is downloaded is kept)."
        )
    tail = "\n".join("    " + line for line in log.strip().splitlines()[-12:])
    return (
        f"{what} failed with exit code {code}; the last lines below say why. Mend that "
        f"and run the same command again.\n{tail}"
    )


def install(command, what, env=None, cwd=ROOT):
    """Run an installer, show its large steps, and stop with a sentence if it fails."""
    process = subprocess.Popen(
        command,
        cwd=str(cwd),
        env=env or variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines = []
    for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip()
        lines.append(line)
        size = re.match(r"\s*Downloading (\S+) .*?\(([\d.]+) MB\)", line)
        if size and float(size.group(2)) >= 10:
            name = re.split(r"-(?:cp|py)\d|\.tar", size.group(1).rsplit("/", 1)[-1])[0]
            say(f"  downloading {name}, {float(size.group(2)):.0f} MB")
        elif line.startswith("Installing collected packages:"):
            say(f"  installing {line.count(',') + 1} packages")
    code = process.wait()
    if code:
        raise Stop(explain(what, "\n".join(lines), code))


@contextlib.contextmanager
def only_one(root):
    """Let one process at a time work on the environment; the others wait."""
    folder = root / "_build"
    folder.mkdir(exist_ok=True)
    with (folder / "environment.lock").open("w") as stream:
        with contextlib.suppress(OSError):
            if WINDOWS:
                import msvcrt

                msvcrt.locking(stream.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(stream, fcntl.LOCK_EX)
        yield


# ------------------------------------------------------------------------------- .venv


def wanted_stamp(root=ROOT):
    """What the environment is made from: the pins, the package's needs, the folder."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    needs = [t for t in tables if re.match(r"\[(build-system|project)\b", t)]
    content = hashlib.sha256("".join(needs).encode())
    content.update((root / "requirements.txt").read_bytes())
    return f"{content.hexdigest()}\n{root}\n"


def read(path):
    """Text of a small file, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def venv_is_current(root=ROOT):
    """Whether ``.venv`` was finished, in this folder, for these pins."""
    stamp = read(root / ".venv" / "stamp")
    return stamp == wanted_stamp(root) and python(root).exists()


def usable(root):
    """Whether the environment's Python starts, fits, and belongs to this folder."""
    answer = ask([str(python(root))])
    if answer is None or answer[0] not in VERSIONS:
        return False
    pip = python(root).with_name("pip.exe" if WINDOWS else "pip")
    return WINDOWS or read(pip).startswith(f"#!{python(root).parent}")


def make_venv(root=ROOT):
    """Make ``.venv``, or bring it up to date; a half-made one is made anew."""
    folder = root / ".venv"
    unfinished = folder / "unfinished"
    if folder.exists() and (unfinished.exists() or not usable(root)):
        if folder.is_symlink():
            raise Stop(
                f"{folder} is a link to an environment that belongs elsewhere and is not "
                "touched. Remove the link and run this again."
            )
        say("The environment in .venv is unfinished or broken: making it anew.")
        shutil.rmtree(str(folder))
    if not folder.exists():
        base = choose_interpreter()
        say(f"Making .venv with {base}")
        folder.mkdir()
        unfinished.touch()
        done = subprocess.run(
            [base, "-m", "venv", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            log = done.stdout.decode("utf-8", "replace")
            raise Stop(explain("Making .venv", log, done.returncode))
    unfinished.touch()
    stamp = folder / "stamp"
    if stamp.exists():
        stamp.unlink()
    say("Installing the pinned packages (the first time downloads a few hundred MB,")
    say("several GB on Linux where PyTorch comes with CUDA)")
    pip = [str(python(root)), "-m", "pip", "install"]
    install([*pip, "-r", "requirements.txt"], "Installing the packages", cwd=root)
    editable = ["--no-deps", "--no-build-isolation", "-e", "."]
    install([*pip, "-q", *editable], "Installing transformer_lib", cwd=root)
    unfinished.unlink()
    stamp.write_text(wanted_stamp(root), encoding="utf-8")


# ------------------------------------------------------------------------ node_modules


def wanted_node_stamp(root=ROOT):
    """What ``node_modules`` is made from."""
    content = hashlib.sha256()
    for name in NPM_FILES:
        content.update((root / name).read_bytes())
    return content.hexdigest() + "\n"


def node_is_current(root=ROOT):
    """Whether ``node_modules`` was finished for this lock file."""
    return read(root / "node_modules" / "stamp") == wanted_node_stamp(root)


def make_node_modules(root=ROOT):
    """Fetch MathJax and axe-core by the npm inside ``.venv``."""
    say("Fetching MathJax for the site and axe-core for the tests")
    npm = python(root).with_name("npm.exe" if WINDOWS else "npm")
    # `npm ci` removes an unfinished folder before it starts
    install([str(npm), "ci"], "Fetching MathJax by npm", cwd=root)
    stamp = root / "node_modules" / "stamp"
    stamp.write_text(wanted_node_stamp(root), encoding="utf-8")


# --------------------------------------------------------------------------- for others


def missing(root, names):
    """Names of files that a checkout must have and this one lacks."""
    return [name for name in names if not (root / name).is_file()]


def ensure(node=False, root=ROOT):
    """Make or mend what is not current; nothing happens when all is."""
    names = ["pyproject.toml", "requirements.txt", *(NPM_FILES if node else ())]
    lost = missing(root, names)
    if lost:
        raise Stop(
            f"{', '.join(lost)} is missing in {root}: restore it with "
            f"`git checkout -- {' '.join(lost)}` and run the same command again."
        )
    if venv_is_current(root) and (not node or node_is_current(root)):
        return
    started = time.monotonic()
    with only_one(root):
        if not venv_is_current(root):
            make_venv(root)
        if node and not node_is_current(root):
            make_node_modules(root)
    say(f"The environment stands ({time.monotonic() - started:.0f} s).")


def inside(root=ROOT):
    """Whether this process is the environment's Python."""
    return Path(sys.prefix).resolve() == (root / ".venv").resolve()


def enter(node=False):
    """Go on in the environment: make it if need be, and run this script with its Python.

    Call it at the top of a script, before anything from the environment is imported.
    """
    if os.environ.get("COURSE_ENVIRONMENT") == "off":
        return
    try:
        ensure(node)
    except Stop as trouble:
        print(trouble, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nInterrupted. The same command takes it up again.", file=sys.stderr)
        sys.exit(130)
    if inside():
        return
    script = Path(sys.argv[0]).resolve()
    try:
        code = subprocess.call(
            [str(python()), str(script), *sys.argv[1:]], env=variables()
        )
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def main():
    """Make or mend the environment, and say where it is."""
    ensure(node=True)
    say(f"Python: {python()}")
    return 0


if __name__ == "__main__":
    finish(main)

"""Compile the modules that a message passes for the wheel, with mypyc: PYJMS_COMPILE=1 pip wheel .

Without the variable the build backend makes the pure wheel (`py3-none-any`), and pip's installation
from a checkout or an sdist is pure Python too. With it, the wheel is for the running Python and
machine: an extension beside each source of `modules` (pyproject.toml) that is not in `interpreted`,
and one shared library with the code of all. `PYJMS_COMPILE=quick` does without the optimization of
the C compiler, for tests.

How it is built
---------------
The packages are copied to a folder of their own, side by side, with the settings of mypy that
concern the packages alone. The compiler runs in a process of its own there, which ends without
releasing, one by one, the millions of objects that mypy has made. The C code comes in a file for
each module (a quick build joins some), and as many of them are built at a time as there are
processors; their objects are one library, in which calls from module to module are direct.
`prepare_module` changes the copies where mypyc compiles something else than Python would do, and
the functions `repair_...` the C code.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "PYJMS_COMPILE"
QUICK = "quick"
LIBRARY = "pyjms"
PACKAGES = ("pyjms", "broker/pyjms_broker")
COMPILERS = ("mypy>=1.18", "setuptools>=80")
SETTINGS = """[mypy]
plugins = pydantic.mypy
ignore_missing_imports = True
follow_imports = silent
disable_error_code = import-untyped, unused-ignore, misc, no-any-return, no-untyped-call
"""
"""Types of optional packages, which a build need not have, are Any. `make check` finds mistakes."""
_FUTURE = "from __future__ import annotations"
_INTERPRETED = frozenset({"Enum", "IntEnum", "NamedTuple", "StrEnum", "TypedDict"})
"""Bases of classes that mypyc does not make native."""
_BUILT_IN = frozenset({"None", "bool", "bytes", "float", "int", "str"})
_OF_APPLICATIONS = re.compile(r"pyjms\.(?:connection\.handles|enums|jms)\b")
"""The modules whose classes applications implement, pass or call."""
NO_WARNINGS = ("-Wno-all", "-w")
"""They alone take a quick build more time than the rest of the compiler's work."""
QUICK_FILES = 16
"""C files of a quick build, each with several modules."""
INTERNAL = "-fvisibility=hidden"
"""Calls from module to module of the library are direct: their names are not looked up."""


class CompiledModules(BuildHookInterface[Any]):
    """The build hook of the wheel; it does nothing unless PYJMS_COMPILE is set."""

    def dependencies(self) -> list[str]:
        """Return what the build needs: types of the packages that the sources import, too."""
        wanted = os.environ.get(VARIABLE)
        return [*COMPILERS, *self.metadata.core.dependencies, "typing-extensions"] if wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        level = os.environ.get(VARIABLE, "")
        if not level or version == "editable":
            return
        if level not in {"1", QUICK}:
            sys.exit(
                f"{VARIABLE} is {level!r}: give 1, or {QUICK} for a build without optimization"
            )
        # removed with this object, or at the end of the process, also where the compiler fails
        self._folder = tempfile.TemporaryDirectory(prefix="pyjms-compile-")
        root, tree = Path(self.root), Path(self._folder.name)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(root / package, tree / Path(package).name, ignore=ignored)
        (tree / "mypy.ini").write_text(SETTINGS)
        modules = compiled_modules(root, self.config["modules"], self.config["interpreted"])
        for module in modules:
            prepare_module(tree / module)
        compile_modules(tree, modules, quick=level == QUICK)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for suffix in ("so", "pyd"):
            for path in tree.rglob(f"*.{suffix}"):
                if "build" not in path.relative_to(tree).parts:
                    build_data["force_include"][str(path)] = path.relative_to(tree).as_posix()


def compiled_modules(root: Path, patterns: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return the modules to compile, as paths in a folder that has the packages side by side.

    `folder/{one,two}.py` stands for both modules.
    """
    found = {
        path.relative_to(root).as_posix()
        for pattern in patterns
        for kind in _alternatives(pattern)
        for path in root.glob(kind)
        if not any(PurePath(path).match(each) for each in without)
    }
    return sorted(name.removeprefix("broker/") for name in found)


def _alternatives(pattern: str) -> list[str]:
    start, _, rest = pattern.partition("{")
    names, _, end = rest.partition("}")
    return [f"{start}{name}{end}" for name in names.split(",")]


def prepare_module(module: Path) -> None:
    """Change what mypyc compiles to something else; all lines keep their numbers.

    Interpreted classes may extend a compiled one only if it has a decorator, which gets a line that
    is empty. mypyc leaves out the cause of `raise ... from`. And a compiled function refuses
    arguments of wrong types with errors of its own: what applications call accepts Any, and the
    checks in the source tell what is wrong.
    """
    lines = module.read_text(encoding="utf-8").split("\n")
    tree = ast.parse("\n".join(lines))
    imports = lines.index(_FUTURE)
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.cause]
    for node in sorted(raised, key=lambda node: node.lineno, reverse=True):
        _call_with_cause(lines, node)
    for annotation in _annotations_of_applications(tree):
        _replace(lines, annotation, "Any")
    found = [
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 2
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not _INTERPRETED.intersection(map(_name, node.bases))
    ]
    for line in (imports + 1, *found):
        if lines[line] and not lines[line].startswith("#"):
            sys.exit(f"{module}:{line + 1}: leave this line empty, for a decorator")
        lines[line] = "@mypyc_attr(allow_interpreted_subclasses=True)"
    lines[imports] += "; from typing import TYPE_CHECKING, Any"
    lines[imports] += "; from pyjms.runtime.build import add_cause"
    lines[imports + 1] = "if TYPE_CHECKING: from mypy_extensions import mypyc_attr"
    module.write_text("\n".join(lines), encoding="utf-8")


def _call_with_cause(lines: list[str], node: ast.Raise) -> None:
    """Make `raise add_cause(error, cause)` of `raise error from cause`."""
    error, cause = node.exc, node.cause
    assert error is not None
    assert cause is not None
    texts = (  # from the right to the left
        (node.end_lineno, node.end_col_offset, node.end_col_offset, ")"),
        (cause.lineno, error.end_col_offset, cause.col_offset, ","),
        (node.lineno, node.col_offset, node.col_offset + len("raise "), "raise add_cause("),
    )
    for number, start, end, text in texts:
        assert number is not None
        assert start is not None
        line = lines[number - 1].encode()
        new = text.encode() if text != "," else line[start:end].replace(b" from", b",")
        lines[number - 1] = (line[:start] + new + line[end:]).decode()


def _annotations_of_applications(tree: ast.Module) -> list[ast.expr]:
    """Return the annotations of arguments that the build leaves to the source to check."""
    known = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and _OF_APPLICATIONS.match(node.module or "")
        for alias in node.names
    }
    bases, found = set(known), []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        names = {re.split(r"[.\[]", ast.unparse(base), maxsplit=1)[0] for base in node.bases}
        if not bases.intersection(names):
            continue
        bases.add(node.name)
        found += [
            argument.annotation
            for method in node.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name[0] != "_"
            for argument in (*method.args.args, *method.args.kwonlyargs)
            if argument.annotation is not None
            and known.union(_BUILT_IN).issuperset(
                kind.partition(".")[0] for kind in ast.unparse(argument.annotation).split(" | ")
            )
        ]
    return found


def _replace(lines: list[str], node: ast.expr, text: str) -> None:
    """Write `text` and spaces over a node of one line."""
    line = lines[node.lineno - 1].encode()
    start, end = node.col_offset, node.end_col_offset
    assert node.end_lineno == node.lineno
    assert end is not None
    lines[node.lineno - 1] = (line[:start] + text.ljust(end - start).encode() + line[end:]).decode()


def _name(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


_OWNED_WEAK_REFERENCE = re.compile(
    r"^ +Py_(?:VISIT|CLEAR)\(\*\(\(PyObject \*\*\)"
    r"\(\(char \*\)self \+ sizeof\(PyObject \*\) \+ .*\n",
    re.MULTILINE,
)
_CLASS = re.compile(r"^(?=static int\n\w+_traverse\()", re.MULTILINE)
_END_OF_OBJECT = re.compile(r"_dealloc\(.* \*self\)\n\{\n(?: +PyObject_GC_UnTrack\(self\);\n)?")
_FORGET = "    if (Py_TYPE(self)->tp_weaklistoffset) PyObject_ClearWeakRefs((PyObject *)self);\n"


def repair_weak_references(code: str) -> str:
    """Return the C code of mypyc with the weak references to its objects handled as Python does.

    Objects whose class has an interpreted base can be referenced weakly. mypyc takes the list of
    their weak references for an object that it owns, and does not clear them at the end.
    """
    classes = _CLASS.split(code)
    for number, each in enumerate(classes):
        if "ManagedDict(" in each or _OWNED_WEAK_REFERENCE.search(each):
            repaired = _OWNED_WEAK_REFERENCE.sub("", each)
            classes[number] = _END_OF_OBJECT.sub(lambda end: end.group() + _FORGET, repaired)
    return "".join(classes)


_THROW = "PyObject_CallFunctionObjArgs(_m, type, value, traceback, NULL)"
_THROW_VALUE = (
    "(PyCFunction_Check(_m) && !(PyCFunction_GET_FLAGS(_m) & METH_KEYWORDS))"
    f" ? PyObject_CallOneArg(_m, value) : {_THROW}"
)


def repair_throw(code: str) -> str:
    """Return the C code of mypyc with `throw` of Python's own coroutines called with the error.

    mypyc passes its class and traceback as well, of which Python 3.12 and later warn.
    """
    return code.replace(_THROW, _THROW_VALUE)


_SIZE_OF_SLICE = "slice_len = endn - startn;"


def repair_slices(code: str) -> str:
    """Return the C code of mypyc with `data[2:1]` of bytes empty, instead of a SystemError."""
    return code.replace(_SIZE_OF_SLICE, "slice_len = endn > startn ? endn - startn : 0;")


def compile_modules(tree: Path, modules: Sequence[str], *, quick: bool) -> None:
    """Build the extensions of `modules` beside their sources in `tree`."""
    command = [sys.executable, "-P", __file__, *([QUICK] if quick else []), *modules]
    done = subprocess.run(
        command,
        check=False,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nmypyc failed; its output is above")


def build_extensions(modules: list[str], *, quick: bool) -> None:
    """Do the work of `compile_modules` in the folder that is current."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class ParallelBuild(build_ext):
        """Builds the files of an extension beside each other, not the extensions."""

        def build_extensions(self) -> None:
            compile_files = self.compiler.compile

            def compile_together(sources: Sequence[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as threads:
                    each = threads.map(lambda source: compile_files([source], **options), sources)
                    return [name for names in each for name in names]

            self.compiler.compile = compile_together
            super().build_extensions()

    extensions = mypycify(
        ["--strict", *modules],
        opt_level="0" if quick else "2",
        debug_level="0",
        multi_file=True,
        group_name=LIBRARY,
    )
    for path in Path("build").rglob("*.c"):
        code = repair_throw(repair_weak_references(path.read_text()))
        path.write_text(repair_slices(code))
    for extension in extensions:
        extension.extra_compile_args = [*extension.extra_compile_args, *NO_WARNINGS, INTERNAL]
        if quick:
            extension.sources = _join_files(extension.sources)
    setup(
        name=LIBRARY,
        ext_modules=extensions,
        cmdclass={"build_ext": ParallelBuild},
        script_args=["build_ext", "--inplace"],
    )


def _join_files(sources: list[str]) -> list[str]:
    """Return few C files that include those of the modules, and the other sources.

    Each file includes 32,000 lines of headers: a sixth of the work where nothing is optimized.
    """
    modules = [source for source in sources if Path(source).name.startswith("__native_")]
    largest_first = sorted(modules, key=lambda source: -Path(source).stat().st_size)
    files = []
    for number in range(min(QUICK_FILES, len(modules))):
        file = Path(f"joined_{number}.c")
        lines = [f'#include "{source}"\n' for source in largest_first[number::QUICK_FILES]]
        file.write_text("".join(lines))
        files.append(str(file))
    return files + [source for source in sources if source not in modules]


if __name__ == "__main__":
    quick = sys.argv[1] == QUICK
    build_extensions(sys.argv[1 + quick :], quick=quick)
    sys.stdout.flush()
    os._exit(0)

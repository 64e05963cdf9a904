"""What the modules of the compiled wheel must not contain (docs/wheels.md).

mypyc refuses some of it, only when the wheel is built; the rest it compiles to something else than
Python does.
"""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from config.wheel.build_hook import (
    compiled_modules,
    prepare_module,
    repair_slices,
    repair_throw,
    repair_weak_references,
)
from tests.kit.runs.parallel import SOURCE_TREE
from tests.kit.source_tree import ROOT, nodes, tree

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)

HOOK = ("tool", "hatch", "build", "targets", "wheel", "hooks", "custom")
CONSUMERS = frozenset(
    {
        "Counter", "OrderedDict", "all", "any", "bytearray", "bytes", "deque", "dict", "extend",
        "fromkeys", "frozenset", "join", "list", "max", "min", "next", "set", "sorted", "sum", "tuple",
        "union", "update",
    }
)  # fmt: skip
"""What reads a whole generator expression at once, or mypyc has its own code for."""
C_NAMES = frozenset(
    {
        "alignof", "asm", "attribute", "complex", "const", "extension", "imag", "inline", "label",
        "real", "restrict", "signed", "thread", "typeof", "volatile",
    }
)  # fmt: skip
"""C compilers know these names after two underscores, of which mypyc puts one before an attribute."""


def module_names() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for key in HOOK:
        settings = settings[key]
    return compiled_modules(ROOT, settings["modules"], settings["interpreted"])


def source_of(module: str) -> Path:
    return ROOT / module if (ROOT / module).exists() else ROOT / "broker" / module


MODULES = module_names()
SOURCES = {module: source_of(module) for module in MODULES}


def called(node: ast.Call) -> str:
    """Return the last part of the name of what is called, or nothing."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def classes_of(module: str) -> Iterator[ast.ClassDef]:
    for node in tree(SOURCES[module]).body:
        if isinstance(node, ast.ClassDef):
            yield node


def class_variables(node: ast.ClassDef) -> list[ast.expr]:
    """Return what is assigned in the body without annotation."""
    assigned = [each for each in node.body if isinstance(each, ast.Assign)]
    return [target for each in assigned for target in each.targets]


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def test_generator_expressions_are_read_at_once() -> None:
    """mypyc makes a list of a generator expression before anybody asks for its first item."""
    read = {
        id(argument)
        for path in SOURCES.values()
        for node in nodes(path, ast.Call)
        if called(node) in CONSUMERS
        for argument in node.args
    } | {id(node.value) for path in SOURCES.values() for node in nodes(path, ast.Starred)}
    assert [
        f"{module}:{node.lineno}: write a loop, a generator or a list"
        for module, path in SOURCES.items()
        for node in nodes(path, ast.GeneratorExp)
        if id(node) not in read
    ] == []


def test_classes_can_be_compiled() -> None:
    found = []
    for node in [node for module in MODULES for node in classes_of(module)]:
        name, bases = node.name, base_names(node)
        if "ABC" in bases:
            found.append(
                f"{name}: compiled classes share the caches of ABC; abstractmethod is enough"
            )
        if {"int", "str", "deque", "property"}.intersection(bases):
            found.append(f"{name}: has to hold what it extends")
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if any("slots=True" in each for each in decorators):
            found.append(f"{name}: dataclass(slots=True) makes a second class")
        is_dataclass = any(each.startswith("dataclass") for each in decorators)
        if is_dataclass and "__slots__" in map(ast.unparse, class_variables(node)):
            found.append(f"{name}: mypyc makes a field of __slots__")
        # the constructors of dataclasses and named tuples are Python's, and set all defaults
        has_constructor = not is_dataclass and "NamedTuple" not in bases
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and (
                statement.args.kwarg is not None and statement.name != "__init__"
            ):
                found.append(f"{name}.{statement.name}: name the arguments that it overrides")
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                kind = ast.unparse(statement.annotation)
                is_none = ast.unparse(statement.value) == "None"
                is_unset = is_none and has_constructor and kind.count("|") != 1
                if is_unset or kind.startswith("type["):
                    found.append(f"{name}.{ast.unparse(statement.target)}: set it in __init__")
    assert found == []


def test_attributes_have_names_that_c_allows() -> None:
    assert [
        f"{module}:{node.lineno}: {node.attr}"
        for module, path in SOURCES.items()
        for node in nodes(path, ast.Attribute)
        if node.attr[:1] == "_" and node.attr[1:] in C_NAMES
    ] == []


def test_arguments_are_not_deleted() -> None:
    assert [
        f"{module}:{node.lineno}: del {target.id}"
        for module, path in SOURCES.items()
        for node in nodes(path, ast.Delete)
        for target in node.targets
        if isinstance(target, ast.Name)
    ] == []


def test_coroutines_do_not_wait_while_they_handle_an_error() -> None:
    """The error is in the state of the thread, where other tasks replace it during the wait."""
    waits = (ast.Await, ast.AsyncWith, ast.AsyncFor, ast.Yield, ast.YieldFrom)
    assert [
        f"{module}:{statement.lineno}: see pyjms.runtime.event_loop.with_cleanup"
        for module, path in SOURCES.items()
        for statement in (
            *(each for node in nodes(path, ast.Try) for each in node.finalbody),
            *(each for node in nodes(path, ast.ExceptHandler) for each in node.body),
            *nodes(path, ast.AsyncWith),
        )
        if any(isinstance(each, waits) for each in ast.walk(statement))
    ] == []


def test_modules_are_prepared_without_another_line(tmp_path: Path) -> None:
    copied = tmp_path / "module.py"
    found = []
    for module, path in SOURCES.items():
        shutil.copy(path, copied)
        prepare_module(copied)
        prepared = copied.read_text(encoding="utf-8")
        if prepared.count("\n") != path.read_text(encoding="utf-8").count("\n"):
            found.append(f"{module}: has another number of lines")
        found += [
            f"{module}:{node.lineno}: raises from an error"
            for node in ast.walk(ast.parse(prepared))
            if isinstance(node, ast.Raise) and node.cause is not None
        ]
    assert found == []


def test_what_applications_call_accepts_arguments_of_all_types(tmp_path: Path) -> None:
    """The source checks them: mypyc would refuse wrong ones with an error of its own."""
    module = tmp_path / "module.py"
    lines = (
        "from __future__ import annotations",
        "",
        "from pyjms.jms import api",
        "",
        "",
        "class Producer(api.MessageProducer):",
        "    def send(self, message: api.Message | None, *, priority: int = 4) -> None: ...",
        "    def dispatch(self, command: Command, size: int | Size) -> None: ...",
        "    def _send(self, priority: int) -> None: ...",
        "",
        "",
        "class Derived(Producer[Command]):",
        "    def close(self, producer: Producer, now: bool) -> None: ...",
    )
    module.write_text("\n".join(lines))
    prepare_module(module)
    assert [" ".join(line.split()) for line in module.read_text().splitlines()[6:]] == [
        "def send(self, message: Any , *, priority: Any = 4) -> None: ...",
        "def dispatch(self, command: Command, size: int | Size) -> None: ...",
        "def _send(self, priority: int) -> None: ...",
        "",
        "@mypyc_attr(allow_interpreted_subclasses=True)",
        "class Derived(Producer[Command]):",
        "def close(self, producer: Producer, now: Any ) -> None: ...",
    ]


def test_a_raised_error_keeps_its_cause(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from __future__ import annotations\n\n\ndef f(error: Exception) -> None:\n"
        "    raise ValueError(\n        'ä'\n    ) from error\n"
    )
    prepare_module(module)
    names: dict[str, object] = {}
    exec(module.read_text(), names)
    function = names["f"]
    assert callable(function)
    cause = KeyError()
    with pytest.raises(ValueError, match="ä") as raised:
        function(cause)
    assert raised.value.__cause__ is cause


WEAK_SIDES = {"WeakSet": 0, "WeakKeyDictionary": 0, "WeakValueDictionary": 1}
"""Which type argument of a container it refers to weakly."""
ANY_KIND = {"pyjms/sync/portal.py"}
"""Modules that name no class; what they refer to weakly is no object of a compiled class."""


def weakly_referenced(path: Path) -> Iterator[tuple[int, set[str]]]:
    """Yield lines and the names of the classes whose objects are referred to weakly there."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {each.name for each in node.names} | {getattr(node, "module", None)}
            names = {each.name for each in node.names}
            if "weakref" in modules and not names <= set(WEAK_SIDES):
                yield node.lineno, {"object"}  # a reference that does not say to what
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in WEAK_SIDES:
            arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            side = ast.unparse(arguments[WEAK_SIDES[ast.unparse(node.value)]])
            yield node.lineno, set(re.sub(r"\[.*?\]", "", side).split(" | "))


def test_nothing_refers_weakly_to_objects_of_compiled_classes() -> None:
    """Most have no place for weak references; see pyjms.runtime.fork.Inheritance for another way."""
    compiled = {node.name for module in MODULES for node in classes_of(module)}
    assert [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(names)}"
        for folder in ("pyjms", "broker")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "weakref" in path.read_text(encoding="utf-8")
        for line, names in weakly_referenced(path)
        if compiled.intersection(names)
        or ({"Any", "object"} & names and path.relative_to(ROOT).as_posix() not in ANY_KIND)
    ] == []


def test_weak_references_to_compiled_objects_end_with_them() -> None:
    """A class with an interpreted base has a place for them, which mypyc takes for an attribute."""
    code = """\
static int
module___Kind_traverse(module___KindObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->_name);
    Py_VISIT(*((PyObject **)((char *)self + sizeof(module___KindObject))));
    Py_VISIT(*((PyObject **)((char *)self + sizeof(PyObject *) + sizeof(module___KindObject))));
    return 0;
}
static void
module___Kind_dealloc(module___KindObject *self)
{
    PyObject_GC_UnTrack(self);
    CPy_TRASHCAN_BEGIN(self, module___Kind_dealloc)
}
"""
    repaired = repair_weak_references(code).splitlines()
    before = code.splitlines()
    assert [line for line in before if line not in repaired] == [before[5]]
    (added,) = [line for line in repaired if line not in before]
    assert "PyObject_ClearWeakRefs((PyObject *)self);" in added
    assert repaired.index(added) == repaired.index("    PyObject_GC_UnTrack(self);") + 1


def test_the_c_code_of_mypyc_is_still_what_the_build_repairs() -> None:
    spec = find_spec("mypyc")
    assert spec is not None
    assert spec.origin is not None
    files = (Path(spec.origin).parent / "lib-rt").glob("*.[ch]")
    texts = [path.read_text(encoding="utf-8") for path in files]
    for repair in (repair_slices, repair_throw):
        assert [text for text in texts if repair(text) != text] != []


def interpreted_files_that_extend(names: Iterable[str]) -> list[Path]:
    """Return those with classes that extend others of these names; no others are parsed."""
    extends = re.compile(rf"^class \w+\([^)]*\b(?:{'|'.join(sorted(names))})\b", re.MULTILINE)
    compiled = set(SOURCES.values())
    return [
        path
        for folder in ("pyjms", "broker", "tests", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path not in compiled and extends.search(path.read_text(encoding="utf-8"))
    ]


def test_no_interpreted_class_extends_a_compiled_protocol() -> None:
    """An object of such a class cannot be created: "cannot inherit from compiled traits"."""
    protocols = {
        node.name
        for module in MODULES
        for node in classes_of(module)
        if "Protocol" in base_names(node)
    }
    assert [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in interpreted_files_that_extend(protocols)
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and protocols.intersection(base_names(node))
    ] == []


def attributes_of(node: ast.ClassDef) -> set[str]:
    """Return the names of the attributes that a compiled class keeps in its struct."""
    found = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and ast.unparse(each.value) == "self"
    }
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(
            statement.annotation
        ):
            found.add(ast.unparse(statement.target))
        elif isinstance(statement, ast.Assign):
            found |= {ast.unparse(target) for target in statement.targets}
    return found


def imported_classes(path: Path) -> dict[str, tuple[str, str]]:
    """Return what `path` imports from compiled modules: module and name by the local name."""
    return {
        alias.asname or alias.name: (module, alias.name)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for module in [node.module.replace(".", "/") + ".py"]
        if module in MODULES
        for alias in node.names
    }


def test_interpreted_classes_do_not_replace_attributes_of_compiled_ones() -> None:
    """Compiled code reads the attribute of its class, not the one in the body of a derived class."""
    classes = {(module, node.name): node for module in MODULES for node in classes_of(module)}
    kept: dict[tuple[str, str], set[str]] = {}

    def collect(key: tuple[str, str]) -> set[str]:
        if key not in kept:
            kept[key] = attributes_of(classes[key])
            known = imported_classes(SOURCES[key[0]])
            for base in base_names(classes[key]):
                parent = known.get(base, (key[0], base))
                if parent in classes:
                    kept[key] |= collect(parent)
        return kept[key]

    found = []
    for path in interpreted_files_that_extend({name for _, name in classes}):
        known = imported_classes(path)
        for node in tree(path).body:
            if not isinstance(node, ast.ClassDef):
                continue
            own = {
                statement.name
                for statement in node.body
                if isinstance(statement, ast.FunctionDef)
                and "property" in map(ast.unparse, statement.decorator_list)
            }
            own |= {
                ast.unparse(target)
                for statement in node.body
                if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
                for target in (
                    statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                )
            } - {"__slots__"}  # which are for the class's own instances
            found += [
                f"{path.relative_to(ROOT)}: set {node.name}.{name} in __init__"
                for base in base_names(node)
                if known.get(base) in classes
                for name in own & collect(known[base])
            ]
    assert found == []

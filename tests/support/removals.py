"""What the newest Pythons remove, deprecate or refuse, and where a piece of source uses it.

The names are those of the sections "Removed", "Deprecated" and "Pending removal" of "What's new in
Python" 3.12 to 3.15. Of methods, whose class the source does not say, those count whose names only
the standard library uses; others are left to the tests, in which each warning is an error.
"""

import ast
import re


NAMES = frozenset(
    """
    ast.Bytes ast.NameConstant ast.Num ast.Str asyncio.AbstractChildWatcher
    asyncio.AbstractEventLoopPolicy asyncio.DefaultEventLoopPolicy asyncio.FastChildWatcher
    asyncio.MultiLoopChildWatcher asyncio.PidfdChildWatcher asyncio.SafeChildWatcher
    asyncio.ThreadedChildWatcher asyncio.WindowsProactorEventLoopPolicy
    asyncio.WindowsSelectorEventLoopPolicy asyncio.get_child_watcher asyncio.get_event_loop
    asyncio.get_event_loop_policy asyncio.iscoroutinefunction asyncio.set_child_watcher
    asyncio.set_event_loop_policy codecs.open collections.abc.ByteString ctypes.SetPointerType
    datetime.datetime.utcfromtimestamp datetime.datetime.utcnow glob.glob0 glob.glob1
    http.server.CGIHTTPRequestHandler importlib.abc.ResourceReader importlib.abc.Traversable
    importlib.abc.TraversableResources inspect.formatargspec inspect.getargspec
    locale.getdefaultlocale locale.resetlocale logging.warn pkgutil.ImpImporter pkgutil.ImpLoader
    pkgutil.find_loader pkgutil.get_loader platform.java_ver pty.master_open pty.slave_open
    sqlite3.OptimizedUnicode sqlite3.enable_shared_cache sqlite3.version sqlite3.version_info
    ssl.match_hostname ssl.wrap_socket sysconfig.expand_makefile_vars threading.activeCount
    threading.currentThread typing.ByteString typing.io typing.no_type_check_decorator typing.re
    unittest.findTestCases unittest.getTestCaseNames unittest.makeSuite urllib.parse.Quoter
    urllib.request.FancyURLopener urllib.request.URLopener webbrowser.MacOSX
    zipimport.zipimporter.find_loader
    """.split()
)

MODULES = frozenset(
    """
    aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap
    msilib nis nntplib ossaudiodev pipes pkg_resources smtpd sndhdr spwd sre_compile sre_constants
    sre_parse sunau telnetlib uu xdrlib
    """.split()
)

METHODS = frozenset(
    """
    assertEquals assertItemsEqual assertNotEquals assertRegexpMatches co_lnotab find_module
    getDaemon isDaemon load_module module_repr notifyAll readfp setDaemon
    """.split()
)

KEYWORDS = {
    "shutil.rmtree": "onerror",
    "functools.reduce": "function",
    "email.utils.localtime": "isdst",
    "sysconfig.is_python_build": "check_home",
    "argparse.BooleanOptionalAction": "metavar",
}
"""Arguments that are gone, by what takes them."""

_WORD = re.compile(r"\w+")
_TELLING_WORDS = MODULES | METHODS | {"RLock", "NamedTuple", "TypedDict", "finally"}
_PAIRS = {frozenset((name.partition(".")[0], name.rpartition(".")[2])) for name in NAMES} | {
    frozenset((name.partition(".")[0], keyword)) for name, keyword in KEYWORDS.items()
}
"""The module and the last word of each name, which stand in every source that uses it."""

_TELLING = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Call, ast.Try)
_LEAVING = (ast.Return, ast.Break, ast.Continue)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _may_use(source):
    """Say whether the words of a source leave open that it uses something, without parsing."""
    words = set(_WORD.findall(source))
    return not words.isdisjoint(_TELLING_WORDS) or any(pair <= words for pair in _PAIRS)


def removals_in(source):
    """Return what a source uses that is going, each as its line and its name."""
    if not _may_use(source):
        return []
    nodes = list(_telling(ast.parse(source)))
    origins = _origins(nodes)
    uses = []
    for node in nodes:
        for name in _names_of(node, origins):
            if name in NAMES or name.partition(".")[0] in MODULES:
                uses.append((node.lineno, name))
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            uses.append((node.lineno, node.attr))
        if isinstance(node, ast.Call):
            name = _dotted(node.func, origins)
            words = {word.arg for word in node.keywords}
            if KEYWORDS.get(name) in words - {None}:
                uses.append((node.lineno, f"{name}({KEYWORDS[name]}=)"))
            if name in ("typing.NamedTuple", "typing.TypedDict") and _has_odd_fields(node):
                uses.append((node.lineno, f"{name} without its fields"))
            if name == "threading.RLock" and (node.args or node.keywords):
                uses.append((node.lineno, "threading.RLock with arguments"))
        if isinstance(node, ast.Try):
            uses += [(leaving.lineno, "leaving `finally`") for leaving in _leavings(node.finalbody)]
    return sorted(set(uses))


def _telling(tree):
    """Yield the nodes that can say what is used, in half the time of `ast.walk`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _TELLING):
            yield node
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]


def _origins(nodes):
    """Return what the imported names of a module stand for."""
    origins = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                first = name.name.partition(".")[0]
                origins[name.asname or first] = name.name if name.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                origins[name.asname or name.name] = f"{node.module}.{name.name}"
    return origins


def _names_of(node, origins):
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{name.name}" for name in node.names]
    return [_dotted(node, origins)] if isinstance(node, ast.Attribute) else []


def _dotted(node, origins):
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, origins)}.{node.attr}"
    return origins.get(node.id, "") if isinstance(node, ast.Name) else ""


def _has_odd_fields(call):
    fields = call.args[1] if len(call.args) > 1 else None
    return fields is None or (isinstance(fields, ast.Constant) and fields.value is None)


def _leavings(body, *, in_loop=False):
    """Yield what leaves a ``finally``, which 3.14 warns of; a loop inside it may be left."""
    for node in body:
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.Return) or (isinstance(node, _LEAVING) and not in_loop):
            yield node
        is_loop = in_loop or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        yield from _leavings(ast.iter_child_nodes(node), in_loop=is_loop)

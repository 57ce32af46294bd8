"""Modules that stand where another project's stand, below ``site-packages``."""

import importlib.util


def installed(folder, source, name="stranger"):
    """Import a module from its source as if it had been installed into a folder."""
    path = folder / "site-packages" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Lets a benchmark use the functions of another one: these are programs, whose names have no suffix."""

import importlib.machinery
import importlib.util
from pathlib import Path


def script(name):
    """Returns a benchmark as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(Path(__file__).parent.with_name(name)))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module

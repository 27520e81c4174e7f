"""The methods by name, each with one record from which everything else is derived."""

from sttau.methods.build import Factory, build, resolve
from sttau.methods.create import create_model
from sttau.methods.record import DataSpec, Method
from sttau.methods.registry import METHODS, find_method

__all__ = ["METHODS", "DataSpec", "Factory", "Method", "build", "create_model", "find_method", "resolve"]

"""scipy's assignment solver by itself, without the 50 MB that scipy's packages take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]
Solver = Callable[..., tuple[Indices, Indices]]


@functools.cache
def linear_sum_assignment() -> Solver:
    """Return ``scipy.optimize.linear_sum_assignment``.

    Its module needs nothing but numpy, so it is loaded without the package around it; where a release of scipy keeps it
    elsewhere, the package is imported.
    """
    package = find_spec("scipy.optimize")  # which imports scipy, and not this
    folders = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("_lsap", folders) if folders is not None else None
    solver: Any = None
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        solver = getattr(module, "linear_sum_assignment", None)
    if solver is None:
        from scipy import optimize

        solver = optimize.linear_sum_assignment
    found: Solver = solver
    return found


def sparse_assignment() -> Callable[..., Any]:
    """Return a function of worths, their rows and columns, and a shape, that returns the best full assignment.

    It is ``scipy.sparse.csgraph.min_weight_full_bipartite_matching``, with all of ``scipy.sparse``: for crowds only.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    def solve(worths: Any, places: Any, shape: tuple[int, int]) -> Any:
        return min_weight_full_bipartite_matching(csr_matrix((worths, places), shape=shape), maximize=True)

    return solve

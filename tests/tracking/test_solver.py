"""The solver is scipy's, and the parts of a graph are those that scipy finds."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.sparse import csgraph

from sluice.contract.pairs import connected_components
from sluice.tracking.solver import linear_sum_assignment


@pytest.mark.parametrize("seed", range(20))
def test_it_assigns_as_scipy_does(seed):
    random = np.random.default_rng(seed)
    matrix = random.random(random.integers(1, 9, 2))
    for mine, theirs in zip(
        linear_sum_assignment()(matrix, maximize=True),
        optimize.linear_sum_assignment(matrix, maximize=True),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_those_of_scipy(seed):
    random = np.random.default_rng(seed)
    size, edges = int(random.integers(1, 60)), int(random.integers(0, 60))
    a, b = random.integers(0, size, (2, edges))
    graph = sparse.coo_array((np.ones(edges), (a, b)), shape=(size, size))
    number, component = csgraph.connected_components(graph, directed=False)
    found, mine = connected_components(a, b, size)
    assert found == number
    np.testing.assert_array_equal(mine, component)


def test_a_chain_is_one_part():
    nodes = np.arange(999)
    order = np.random.default_rng(0).permutation(1000)
    assert connected_components(order[nodes], order[nodes + 1], 1000)[0] == 1


def test_scipys_packages_are_not_imported_for_it():
    lines = """
import sys
from sluice.tracking.solver import linear_sum_assignment
linear_sum_assignment()
print([name for name in ("scipy.optimize", "scipy.sparse") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", lines], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"

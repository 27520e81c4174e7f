from __future__ import annotations

import pytest

from sttau_reproduction.classification.cells import CHOICES, networks_of, tables_of


@pytest.mark.parametrize("what", CHOICES)
def test_everything_that_is_shown_is_declared(what: str) -> None:
    networks = networks_of(what)
    assert networks
    for table in tables_of(what):
        for data, names in table.networks.items():
            assert {(data, name) for name in names} <= {(network.data, network.name) for network in networks}
            assert set(table.paper.get(data, {})) <= set(names)
            for numbers in table.paper.get(data, {}).values():
                assert set(numbers) <= {column.key for column in table.columns}

"""Communities of graphs with gold groups: as good a partition as the best known, and no community that falls apart."""

import igraph
import pytest

from localrag.records import Entity, Graph, Relationship
from tests.conftest import DATA
from tests.graphs import detect_communities

pytestmark = [pytest.mark.ci, pytest.mark.filterwarnings("ignore:One or more unknown entities")]  # an & in the GML of football
FOLDER = DATA / "communities"
BEST = {"dolphins": 0.5285, "football": 0.6046, "mu-0.1": 0.8134, "mu-0.5": 0.2790}  # modularity, the best that was ever found


@pytest.fixture(scope="module", params=BEST)
def gold(request):
    """A graph's best modularity known, the graph as igraph has it, and its communities."""
    path = FOLDER / f"{request.param}.gml"
    if not path.exists():
        pytest.skip(f"the graphs with gold groups are not here ({path})")
    network = igraph.Graph.Read_GML(str(path)).simplify()
    network.vs["name"] = [f"n{v.index:05}" for v in network.vs]
    entities = tuple(Entity(v["name"], v["name"], "person", degree=v.degree()) for v in network.vs)
    names = network.vs["name"]
    edges = tuple(Relationship(f"{names[e.source]}-{names[e.target]}", names[e.source], names[e.target]) for e in network.es)
    return BEST[request.param], network, detect_communities(Graph(entities, edges), max_size=10, seed=0)


def test_the_coarsest_level_is_as_good_as_the_best_partition_known(gold):
    """The modularity of level 0 is at most 0.005 below the best that is known of the graph."""
    best, network, found = gold
    group = {e: c.ordinal for c in found if c.level == 0 for e in c.entity_ids}

    assert network.modularity([group[name] for name in network.vs["name"]]) >= best - 0.005


def test_no_community_of_any_level_falls_apart(gold):
    """Between any two members of a community there is a path that does not leave it (Leiden's promise; Louvain breaks it)."""
    _, network, found = gold

    assert [c.id for c in found if not network.induced_subgraph(list(c.entity_ids)).is_connected()] == []


def test_every_entity_is_in_one_community_of_every_level(gold):
    """No level leaves an entity out or has it twice."""
    _, network, found = gold

    for level in {c.level for c in found}:
        assert sorted(e for c in found if c.level == level for e in c.entity_ids) == network.vs["name"]

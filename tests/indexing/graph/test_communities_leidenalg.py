"""igraph's Leiden against leidenalg, the authors' own (Traag et al. 2019), on the same graphs."""

import random

import igraph
import leidenalg
import pytest

from localrag.indexing.graph.communities import LEIDEN_ITERATIONS
from localrag.records import Entity, Graph, Relationship
from tests.conftest import DATA
from tests.graphs import detect_communities

pytestmark = [pytest.mark.ci, pytest.mark.filterwarnings("ignore:One or more unknown entities")]  # an & in the GML of football
GOLD = [path.stem for path in sorted((DATA / "communities").glob("*.gml"))] or ["none"]
SLACK = 0.005  # of modularity


def gold(name):
    path = DATA / "communities" / f"{name}.gml"
    if not path.exists():
        pytest.skip(f"the graphs with gold groups are not here ({path})")
    network = igraph.Graph.Read_GML(str(path)).simplify()
    network.es["weight"] = [1.0] * network.ecount()
    return network


def planted(groups, size, inside, between, *, weighted, seed):
    """A graph of planted groups; where `weighted`, edges within one weigh more on the whole."""
    chance = random.Random(seed)
    group = [n // size for n in range(groups * size)]
    pairs = [(a, b) for a in range(len(group)) for b in range(a) if chance.random() < (inside if group[a] == group[b] else between)]
    network = igraph.Graph(len(group), pairs)
    network.es["weight"] = [chance.randint(1, 9 if group[a] == group[b] else 4) if weighted else 1.0 for a, b in pairs]
    return network


def heavy_tailed(seed):
    """A graph of names as texts make them: few with very many relationships, weights that are counts."""
    chance = random.Random(seed)
    igraph.set_random_number_generator(chance)
    network = igraph.Graph.Barabasi(600, 3)
    network.es["weight"] = [min(50, int(1 / (1 - chance.random()))) for _ in network.es]
    return network


MADE = {
    "planted": lambda: planted(8, 25, 0.4, 0.02, weighted=False, seed=1),
    "planted, weighted": lambda: planted(8, 25, 0.3, 0.04, weighted=True, seed=2),
    "many small groups": lambda: planted(60, 6, 0.8, 0.004, weighted=True, seed=3),
    "disconnected": lambda: igraph.disjoint_union(
        [planted(4, 15, 0.5, 0.03, weighted=True, seed=s) for s in range(3)] + [igraph.Graph.Full(n) for n in (2, 2, 3, 5)]
    ),
    "heavy-tailed": lambda: heavy_tailed(4),
    "without structure": lambda: planted(1, 150, 0.06, 0, weighted=True, seed=5),
}


@pytest.fixture(scope="module", params=[*GOLD, *MADE])
def graph(request):
    """A network and its communities."""
    network = MADE[request.param]() if request.param in MADE else gold(request.param)
    weights = [w or 1.0 for w in network.es["weight"]]  # the union leaves edges of unweighted graphs without one
    network.es["weight"] = weights
    names = network.vs["name"] = [f"n{v.index:05}" for v in network.vs]
    entities = tuple(Entity(v["name"], v["name"], "person", degree=v.degree()) for v in network.vs)
    edges = tuple(
        Relationship(f"{names[e.source]}-{names[e.target]}", names[e.source], names[e.target], weight=e["weight"]) for e in network.es
    )
    return network, detect_communities(Graph(entities, edges), max_size=10, seed=0)


def test_as_much_modularity_as_leidenalg(graph):
    """The coarsest level has at most 0.005 less weighted modularity than leidenalg's partition with as many iterations."""
    network, found = graph
    reference = leidenalg.find_partition(
        network, leidenalg.ModularityVertexPartition, weights="weight", n_iterations=LEIDEN_ITERATIONS, seed=0
    )
    group = {e: c.ordinal for c in found if c.level == 0 for e in c.entity_ids}
    ours = network.modularity([group[name] for name in network.vs["name"]], weights="weight")

    assert ours >= network.modularity(reference.membership, weights="weight") - SLACK


def test_communities_of_every_level_are_connected(graph):
    """No community of any level falls apart: Leiden's promise over Louvain."""
    network, found = graph

    assert [c.id for c in found if not network.induced_subgraph(list(c.entity_ids)).is_connected()] == []

"""Graph → a vector for each entity that says where in the network it stands: entities with the same neighbours have similar ones.

The paper's reference system used node2vec (Grover and Leskovec 2016): random walks read as sentences by a word-embedding model. This is
ProNE (Zhang et al., IJCAI 2019), which factorises what such walks estimate and then smooths the result over the graph's spectrum. It was
chosen because it needs nothing that is not here already (SciPy, scikit-learn), has no threads whose order matters, so that the same seed
gives the same bytes, and takes seconds where walks take minutes. Of the other candidates gensim's Word2Vec is deterministic only with one
thread and a fixed hash seed and has to be compiled, PecanPy brings numba and gensim, and igraph has walks but no biased ones.
"""

import numpy as np
from numpy.typing import NDArray

from localrag.index.graph.columns import Columns

ORDER, MU, THETA = 10, 0.2, 0.5  # of the Chebyshev expansion: terms, centre and width of the band (the authors' values)
Vectors = NDArray[np.float32]


def structural_vectors(graph: Columns, *, dimensions: int, seed: int) -> Vectors:
    """The vectors of entities, in order: (n, d) float32, L2-normalised; d is `dimensions`, or less in a graph of fewer entities.

    An entity without relationships has a vector of zeros.
    """
    from scipy import sparse

    (a, b), weight, n = graph.ends.T, graph.weight, len(graph.entities)
    network = sparse.csr_matrix((np.r_[weight, weight], (np.r_[a, b], np.r_[b, a])), shape=(n, n))
    d = max(1, min(dimensions, n - 1))
    if not len(weight):
        return np.zeros((n, d), np.float32)
    found = _propagated(network, _factorised(network, d, seed), d, seed)
    found[np.diff(network.indptr) == 0] = 0
    return np.ascontiguousarray(found, np.float32)


def _factorised(network: "sparse.csr_matrix", d: int, seed: int) -> NDArray[np.float64]:  # type: ignore[name-defined]  # noqa: F821
    """What two nodes' meeting on walks says beyond chance (skip-gram with negative sampling as a matrix), factorised."""
    from sklearn.preprocessing import normalize

    steps = normalize(network, "l1").tocsr()
    chance = np.asarray(steps.sum(axis=0)).ravel() ** 0.75
    chance /= chance.sum()
    steps.data = np.log(np.maximum(steps.data, 1e-12)) - np.log(np.maximum(chance[steps.indices], 1e-12))
    return _reduced(steps, d, seed)


def _propagated(network: "sparse.csr_matrix", first: NDArray[np.float64], d: int, seed: int) -> NDArray[np.float64]:  # type: ignore[name-defined]  # noqa: F821
    """The vectors smoothed by a band-pass filter on the graph's spectrum, expanded in Chebyshev polynomials."""
    from scipy import sparse
    from scipy.special import iv
    from sklearn.preprocessing import normalize

    looped = (network + sparse.identity(network.shape[0])).tocsr()
    shifted = (sparse.identity(network.shape[0]) - normalize(looped, "l1") - MU * sparse.identity(network.shape[0])).tocsr()
    before, now = first, 0.5 * (shifted @ (shifted @ first)) - first
    filtered = iv(0, THETA) * before - 2 * iv(1, THETA) * now
    for k in range(2, ORDER):
        before, now = now, shifted @ (shifted @ now) - 2 * now - before
        filtered += (-1) ** k * 2 * iv(k, THETA) * now
    return _reduced(looped @ (first - filtered), d, seed)


def _reduced(matrix: object, d: int, seed: int) -> NDArray[np.float64]:
    from sklearn.preprocessing import normalize
    from sklearn.utils.extmath import randomized_svd

    left, values, _ = randomized_svd(matrix, d, n_iter=5, random_state=seed)
    return np.asarray(normalize(left * np.sqrt(values), "l2"))

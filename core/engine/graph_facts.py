"""What a graph that somebody else has captured consists of, and what instantiating it costs."""

import time

import torch

from ..events import Graph
from .devices import Device
from .graphs import count_nodes, pool_name
from .ledger import Ledger


def describe_graph(graph: torch.cuda.CUDAGraph, device: Device, ledger: Ledger) -> Graph:
    """Its pool; and of one made with `keep_graph=True`, which is instantiated here, its nodes and what that took."""
    pool = pool_name(tuple(graph.pool()))
    raw = _raw_graph(graph)
    if raw is None:
        return Graph(pool_id=pool)
    nodes = count_nodes(raw)
    device.synchronize()
    before, begun = ledger.driver_bytes(), time.perf_counter()
    graph.instantiate()
    took = time.perf_counter() - begun
    device.synchronize()
    after = ledger.driver_bytes()
    return Graph(
        nodes=None if nodes is None else sum(nodes.values()),
        nodes_by_kind=nodes or {},
        pool_id=pool,
        instantiate_s=took,
        instantiate_driver_bytes=None if before is None or after is None else after - before,
    )


def _raw_graph(graph: torch.cuda.CUDAGraph) -> int | None:
    """The `cudaGraph_t`, or None for a graph that torch has not kept."""
    try:
        return int(graph.raw_cuda_graph())
    except (AttributeError, RuntimeError):
        return None

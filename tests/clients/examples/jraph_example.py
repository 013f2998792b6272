import jax
import jax.numpy as jnp
import jraph

graph = jraph.GraphsTuple(
    nodes=jax.random.normal(jax.random.PRNGKey(0), (4, 3)),
    edges=jnp.ones((5, 2)),
    senders=jnp.array([0, 1, 2, 3, 0]),
    receivers=jnp.array([1, 2, 3, 0, 2]),
    n_node=jnp.array([4]),
    n_edge=jnp.array([5]),
    globals=jnp.zeros((1, 1)),
)
network = jraph.GraphNetwork(
    update_edge_fn=lambda e, s, r, g: jnp.concatenate([e, s * r], axis=-1),
    update_node_fn=lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r], axis=-1)),
    update_global_fn=lambda n, e, g: n.sum(-1, keepdims=True) + g,
)
out = jax.jit(network)(graph)
padded = jraph.pad_with_graphs(graph, 8, 8, 2)
results = [out.nodes, out.edges, out.globals, jraph.batch([graph, graph]).nodes, padded.nodes]

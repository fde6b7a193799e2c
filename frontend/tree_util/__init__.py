"""Pytrees: nested containers of arrays, flattened by optree. None is a container without leaves, as in JAX.

The functions and their semantics are those of `jax.tree_util`: dictionaries are taken in the order of their sorted keys,
namedtuples, OrderedDicts and defaultdicts are nodes, other classes are nodes once they are registered.
"""

from .keys import DictKey as DictKey
from .keys import FlattenedIndexKey as FlattenedIndexKey
from .keys import GetAttrKey as GetAttrKey
from .keys import Key as Key
from .keys import KeyEntry as KeyEntry
from .keys import KeyPath as KeyPath
from .keys import SequenceKey as SequenceKey
from .keys import keystr as keystr
from .mapping import structure_differences as structure_differences
from .mapping import tree_all as tree_all
from .mapping import tree_broadcast as tree_broadcast
from .mapping import tree_map as tree_map
from .mapping import tree_reduce as tree_reduce
from .mapping import tree_reduce_associative as tree_reduce_associative
from .mapping import tree_transpose as tree_transpose
from .paths import flatten_one_level_with_keys as flatten_one_level_with_keys
from .paths import tree_flatten_with_path as tree_flatten_with_path
from .paths import tree_leaves_with_path as tree_leaves_with_path
from .paths import tree_map_with_path as tree_map_with_path
from .registration import Partial as Partial
from .registration import Registry as Registry
from .registration import default_registry as default_registry
from .registration import register_boundary_node as register_boundary_node
from .registration import register_dataclass as register_dataclass
from .registration import register_pytree_node as register_pytree_node
from .registration import register_pytree_node_class as register_pytree_node_class
from .registration import register_pytree_with_keys as register_pytree_with_keys
from .registration import register_pytree_with_keys_class as register_pytree_with_keys_class
from .registration import register_static as register_static
from .structures import BOUNDARY as BOUNDARY
from .structures import NAMESPACE as NAMESPACE
from .structures import IsLeaf as IsLeaf
from .structures import Leaf as Leaf
from .structures import PyTreeDef as PyTreeDef
from .structures import all_leaves as all_leaves
from .structures import broadcast_prefix as broadcast_prefix
from .structures import flatten_arrays as flatten_arrays
from .structures import flatten_one_level as flatten_one_level
from .structures import is_single_leaf as is_single_leaf
from .structures import is_tree_leaf as is_tree_leaf
from .structures import is_tree_node as is_tree_node
from .structures import tree_flatten as tree_flatten
from .structures import tree_leaves as tree_leaves
from .structures import tree_structure as tree_structure
from .structures import tree_unflatten as tree_unflatten
from .structures import treedef_children as treedef_children
from .structures import treedef_is_leaf as treedef_is_leaf
from .structures import treedef_tuple as treedef_tuple

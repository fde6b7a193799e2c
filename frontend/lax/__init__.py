"""quire.lax: JAX's lax, the primitives with a user's conveniences."""

from .control_flow import associative_scan as associative_scan
from .control_flow import cond as cond
from .control_flow import fori_loop as fori_loop
from .control_flow import map as map
from .control_flow import scan as scan
from .control_flow import switch as switch
from .control_flow import while_loop as while_loop
from .solves import custom_linear_solve as custom_linear_solve
from .solves import custom_root as custom_root

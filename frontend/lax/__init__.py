"""quire.lax: JAX's lax, the primitives with a user's conveniences."""

from .control_flow import associative_scan as associative_scan
from .control_flow import cond as cond
from .control_flow import fori_loop as fori_loop
from .control_flow import map as map
from .control_flow import scan as scan
from .control_flow import switch as switch
from .control_flow import while_loop as while_loop
from .gradients import stop_gradient as stop_gradient
from .parallel import all_gather as all_gather
from .parallel import all_to_all as all_to_all
from .parallel import axis_index as axis_index
from .parallel import axis_size as axis_size
from .parallel import pmax as pmax
from .parallel import pmean as pmean
from .parallel import pmin as pmin
from .parallel import ppermute as ppermute
from .parallel import pshuffle as pshuffle
from .parallel import psum as psum
from .parallel import psum_scatter as psum_scatter
from .parallel import pswapaxes as pswapaxes
from .solves import custom_linear_solve as custom_linear_solve
from .solves import custom_root as custom_root

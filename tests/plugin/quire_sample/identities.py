# quire_sample/identities.py
from quire.plugins import add_identities

add_identities(
    ("float", ("max", ("neg", "x"), ("neg", "y")), ("neg", ("min", "x", "y"))),
    origin=__name__,
)

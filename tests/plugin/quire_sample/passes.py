# quire_sample/passes.py
from dataclasses import dataclass

from quire.plugins import (
    Atom,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Pass,
    PassContext,
    Var,
    find_primitive,
    register_pass,
    transform_nested,
)

mul_p = find_primitive("mul")


@register_pass
@dataclass(frozen=True)
class PowersAsProducts(Pass):
    """Write ``x ** n`` as products, for n from 2 up to `most`."""

    name = "powers-as-products"
    most: int = 3

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        return program.map_jaxpr(lambda jaxpr: self.rewritten(jaxpr, context))

    def rewritten(self, jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
        eqns: list[Eqn] = []
        for eqn in jaxpr.eqns:
            # Loops, branches and calls hold jaxprs among their parameters.
            params = transform_nested(eqn.params, context, self, lambda inner: self.rewritten(inner, context))
            eqn = eqn.replace(params=params)
            power = eqn.params["y"] if eqn.primitive.name == "integer_pow" else 0
            if not 2 <= power <= self.most:
                eqns.append(eqn)
                continue
            x, value = eqn.inputs[0], eqn.inputs[0]
            for k in range(2, power + 1):
                result = eqn.outputs[0] if k == power else Var(eqn.outputs[0].aval)
                eqns.append(product(value, x, result, eqn))
                value = result
            context.counters["power written as products"] += 1
        return jaxpr.replace(eqns=eqns)


def product(x: Atom, y: Atom, result: Var, instead_of: Eqn) -> Eqn:
    # The source of the equation that it stands for: messages name the user's line.
    return Eqn([x, y], [result], mul_p, {}, source=instead_of.source)

"""quire.passes.ad: differentiation as passes over jaxprs: jvp, linearize, transpose."""

"""Fourier transforms."""

from __future__ import annotations

from ..builder import Builder


def transform(b: Builder) -> object:
    x = b.pick(
        "fc",
        accept=lambda v: v.dtype in ("float32", "complex64", "float64", "complex128") and v.ndim >= 1,
        nonempty=True,
    )
    axis = b.rng.randint(-x.ndim, x.ndim - 1)
    norm = b.one("", ", norm='ortho'", ", norm='forward'")
    if x.kind == "c":
        options = [f"np.fft.fft({{0}}, axis={axis}{norm})", f"np.fft.ifft({{0}}, axis={axis}{norm})"]
        n = x.shape[axis]
        if n > 1:
            options.append(f"np.fft.irfft({{0}}, n={2 * n - b.one(1, 2)}, axis={axis}{norm})")
        if x.ndim >= 2:
            options += [f"np.fft.fft2({{0}}{norm})", f"np.fft.ifft2({{0}}{norm})"]
            if x.shape[-1] > 1:
                options.append(f"np.fft.irfft2({{0}}{norm})")
    else:
        options = [f"np.fft.rfft({{0}}, axis={axis}{norm})", f"np.fft.fft({{0}}, axis={axis}{norm})"]
        if x.ndim >= 2:
            options += [f"np.fft.rfft2({{0}}{norm})", f"np.fft.irfft2(np.fft.rfft2({{0}}), s={x.shape[-2:]})"]
        options.append("np.fft.fftshift({0})")
    return b.emit(b.one(*options), x)


FAMILY = (transform,)

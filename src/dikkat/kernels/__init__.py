"""Operations that have a native kernel, one a file: readable reference, autograd function, native call, dispatch."""

from dikkat.kernels.switch import Backend, active, use

__all__ = ["Backend", "active", "use"]

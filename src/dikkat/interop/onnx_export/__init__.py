"""Write models as plain graphs of ONNX, one operation of dikkat a module."""

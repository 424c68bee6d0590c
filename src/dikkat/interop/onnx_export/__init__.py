"""Write models as plain graphs of ONNX, one operation of the house a module."""

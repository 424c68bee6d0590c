"""The WebAssembly core of the browser engine: C sources of the native engine, compiled for browsers."""
